"""Contrast of text as it is drawn: tints, opacity and all, on every kind of page, in both themes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from agents.models import Call, Run

#: Text whose colour has less than 4.5 to what lies behind it, as {element: [ratio, text]}.
POOR = """() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const line = (element) => (element ? [element, ...line(element.parentElement)] : []);
  const ground = (element) => rgba(getComputedStyle(element).backgroundColor);
  const behind = (element) => line(element).reduceRight((below, one) => over(ground(one), below), [255, 255, 255, 1]);
  const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const poor = {};
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    if (!text.data.trim() || !element.getBoundingClientRect().width) continue;
    if (element.closest("dialog, script, style, title, option, [disabled], .visually-hidden, .skip")) continue;
    const drawn = element.closest("svg");
    const style = getComputedStyle(element);
    const below = behind(drawn ? drawn.parentElement : element);
    const ink = rgba(drawn ? style.fill : style.color);
    ink[3] *= line(element).reduce((all, one) => all * getComputedStyle(one).opacity, 1);
    const [high, low] = [luminance(over(ink, below)), luminance(below)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) poor[`${element.tagName}.${element.getAttribute("class")}`] = [ratio.toFixed(2), text.data.trim()];
  }
  return poor;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_the_contrast_of_wcag_aa(page: Page, run: Run, theme: str) -> None:
    execution = Call.objects.filter(execution__run=run).first().execution_id
    page.context.add_cookies([{"name": "theme", "value": theme, "url": page.url}])
    page.emulate_media(color_scheme=theme)
    tabs = ("", "executions/", "groups/", "cells/", "decisions/", "batches/", "report/", "config/")
    paths = [f"/runs/{run.pk}/{tab}" for tab in tabs]
    paths += ["/", "/runs/new/", "/simulations/", "/api/docs/", f"/executions/{execution}/"]
    paths += [f"/executions/{execution}/?view=tokens"]
    poor = {}
    for path in paths:
        page.goto(path)
        if found := page.evaluate(POOR):
            poor[path] = found
    assert poor == {}
