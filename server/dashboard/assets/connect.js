/* Snippets for the address that the browser is at, copy buttons, and the server's health. */
window.inferenceGym = window.inferenceGym || {};

inferenceGym.connect = inferenceGym.connect || (() => {
  const EVERY_MS = 5000, PATIENCE_MS = 4000;

  /* Address of this mount: what stands before /web, whatever a proxy put before that. */
  function mountAddress() {
    const path = location.pathname;
    return location.origin + path.slice(0, Math.max(0, path.lastIndexOf("/web")));
  }

  /* Address of the server's root, for a page at `mount`. */
  function serverAddress(mount) {
    const address = mountAddress();
    return mount && address.endsWith(mount) ? address.slice(0, -mount.length) : address;
  }

  function fill(element, mount) {
    const server = serverAddress(mount);
    for (const node of element.querySelectorAll("code")) {
      node.textContent = node.textContent.replaceAll("{server}", server);
    }
    for (const link of element.querySelectorAll("a[href]")) {
      link.href = link.getAttribute("href").replaceAll("{server}", server);
    }
  }

  function show(name) {
    for (const section of document.querySelectorAll(".ig-snippets")) section.hidden = section.dataset.env !== name;
  }

  // --- copying --------------------------------------------------------------------------------------------

  /* The old way first: it needs neither https nor a permission, which a page inside another (a Space) lacks. */
  async function copy(text) {
    const area = document.createElement("textarea"), before = document.activeElement;
    area.value = text;
    area.setAttribute("readonly", "");
    area.className = "ig-offstage";
    document.body.append(area);
    area.select();
    let done = false;
    try { done = document.execCommand("copy"); } catch { done = false; }
    area.remove();
    before?.focus({ preventScroll: true });
    if (!done) {
      try { await navigator.clipboard.writeText(text); done = true; } catch { done = false; }
    }
    return done;
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.(".ig-copy");
    if (!button) return;
    const code = button.closest(".ig-code").querySelector("code");
    const done = await copy(code.textContent);
    if (!done) getSelection().selectAllChildren(code);
    button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 3000);
  });

  // --- health ---------------------------------------------------------------------------------------------

  const ONES = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

  function duration(seconds) {
    const whole = Math.floor(seconds);
    const first = ONES.findIndex(([, size]) => whole >= size);
    if (first < 0) return "0 s";
    const [unit, size] = ONES[first], next = ONES[first + 1];
    const rest = next ? Math.floor((whole % size) / next[1]) : 0;
    return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${next[0]}` : ""}`;
  }

  async function ask(url) {
    const gaveUp = new AbortController();
    const timer = setTimeout(() => gaveUp.abort(), PATIENCE_MS);
    try {
      const reply = await fetch(url, { cache: "no-store", signal: gaveUp.signal });
      if (!reply.ok) return { trouble: `The server answers with HTTP ${reply.status} at ${url}.` };
      return { health: await reply.json() };
    } catch {
      return { trouble: `The server does not answer at ${url}.` };
    } finally {
      clearTimeout(timer);
    }
  }

  function health(element, mount) {
    const box = element.querySelector(".ig-health"), words = box.querySelector(".ig-health-words");
    const when = box.querySelector(".ig-health-when"), url = `${mountAddress()}/health`;
    let lostAt = null, heardAt = "", asking = false;

    function say(state, text) {
      box.dataset.state = state;
      if (words.textContent !== text) words.textContent = text;
    }

    function tell({ health: now, trouble }) {
      const clock = new Date().toLocaleTimeString("en-GB");
      if (trouble) {
        lostAt ??= { at: Date.now(), clock };
        box.querySelector('[data-field="status"]').textContent = "unreachable";
        when.textContent = heardAt ? `The other values are from ${heardAt}, when it last answered.` : "";
        say("unreachable", `${trouble} Unreachable since ${lostAt.clock}; asking again every ${EVERY_MS / 1000} s.`);
        return;
      }
      const values = { ...now, uptime_s: duration(now.uptime_s) };
      for (const field of box.querySelectorAll("[data-field]")) {
        field.textContent = `${values[field.dataset.field] ?? "–"}`;
      }
      if (lostAt) say("back", `The server answers again, after ${duration((Date.now() - lostAt.at) / 1000)}.`);
      else if (box.dataset.state !== "back") say("well", "The server answers.");
      lostAt = null;
      heardAt = clock;
      when.textContent = `GET ${url} at ${clock}; again every ${EVERY_MS / 1000} s while this is in sight.`;
    }

    const inSight = () => document.visibilityState === "visible" && box.getClientRects().length > 0;

    async function look() {
      if (asking || !inSight()) return;
      asking = true;
      try { tell(await ask(url)); } finally { asking = false; }
    }

    const timer = setInterval(() => (box.isConnected ? look() : stop()), EVERY_MS);
    function stop() {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    }
    document.addEventListener("visibilitychange", look);
    look();
    // Once more at each return to the tab, however Gradio hides it.
    new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) look(); }).observe(box);
  }

  return { serverAddress, fill, show, health, copy, duration };
})();
