/* A button that saves text as a file. The text came with the page's own data: nothing lies on the server, and
   nobody else can ask for it. */
window.inferenceGym = window.inferenceGym || {};

inferenceGym.download = (element, props, watch) => {
  const button = element.querySelector("button");
  const show = () => { button.hidden = !props.value; };
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([props.value.text], { type: props.value.type }));
    link.download = props.value.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
  watch("value", show);
  show();
};
