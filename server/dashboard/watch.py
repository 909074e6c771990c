"""Watch"""
from __future__ import annotations
import gradio as gr

def watch_tab(bound, bounds):
    run = gr.Button("Run")
    player = gr.HTML(value=None, html_template="<div class='x'>static</div>", js_on_load="""
    element.querySelector('.x').textContent = 'js ran'; console.log('LOAD', JSON.stringify(props.value), typeof Plotly);
    watch('value', () => { console.log('WATCH', JSON.stringify(props.value).slice(0,80), element.querySelector('.x').textContent); element.querySelector('.x').textContent='got';});
    """, head='<script src="../web-assets/plotly.min.js"></script>')
    def f():
        import time
        for k in range(3):
            yield {"k": k, "list": list(range(k))}
            time.sleep(.5)
    run.click(f, outputs=player)
