"""The form that asks a person for the token."""

from __future__ import annotations

from html import escape

__all__ = ["sign_in_page"]

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>InferenceGym</title>
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">
<style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;margin:4rem auto;
max-width:26rem;padding:0 1rem}}label{{display:block}}input,button{{font:inherit;padding:.4rem .6rem}}
input{{width:100%;box-sizing:border-box;margin:.3rem 0 .8rem}}</style></head><body><h1>InferenceGym</h1>
<p>This server is not open to everybody. Its operator has set a token.</p>{problem}
<form method="post" action=""><label>Token <input type="password" name="token" required autofocus
autocomplete="current-password" maxlength="512"></label><button>Open</button></form>
<p>Programs send it as <code>Authorization: Bearer</code>; the Python clients and the command line read it
from <code>INFERENCEGYM_TOKEN</code>.</p></body></html>"""


def sign_in_page(problem: str = "") -> str:
    """The page, with what was wrong with the last try."""
    return _PAGE.format(problem=f'<p role="alert"><strong>{escape(problem)}</strong></p>' if problem else "")
