// Nodes of Markdown to elements, changing only what changed: a selection, a scroll
// position and a screen reader's place survive while text arrives. Text becomes text
// nodes and nothing else; the only attributes are those listed here.

import { safeUrl } from "./inline.js";

const TAGS = new Set(
  "p h3 h4 h5 h6 hr br ul ol li blockquote table thead tbody tr th td".split(" ").concat(
    "strong em del code a span".split(" "),
  ),
);
const CLASSES = new Set(["center", "right"]);

export class Painter {
  #element;
  #painted = [];
  #settled = 0;

  /** @param {Element} element Empty; owned from now on. */
  constructor(element) {
    this.#element = element;
  }

  /** Show what a Markdown holds now; always the same one. */
  paint(markdown) {
    const nodes = markdown.nodes;
    patchChildren(this.#element, this.#painted, nodes, this.#settled);
    this.#painted = nodes;
    this.#settled = markdown.settled;
  }
}

function patchChildren(parent, before, after, from = 0) {
  while (parent.childNodes.length > after.length) parent.lastChild.remove();
  for (let index = from; index < after.length; index += 1) {
    if (index < before.length) patch(parent.childNodes[index], before[index], after[index]);
    else parent.append(create(after[index]));
  }
}

function patch(shown, before, after) {
  if (typeof before === "string" && typeof after === "string") {
    if (after.startsWith(before)) shown.appendData(after.slice(before.length));
    else shown.data = after;
  } else if (typeof before === "string" || before.tag !== after.tag) {
    shown.replaceWith(create(after));
  } else if (after.tag === "fence") {
    patchFence(shown, before, after);
  } else if (JSON.stringify(before.attrs) !== JSON.stringify(after.attrs)) {
    shown.replaceWith(create(after));
  } else {
    patchChildren(inside(shown, after), before.children ?? [], after.children ?? []);
  }
}

function create(node) {
  if (typeof node === "string") return document.createTextNode(node);
  if (node.tag === "fence") return createFence(node);
  const element = document.createElement(TAGS.has(node.tag) ? node.tag : "span");
  for (const [name, value] of Object.entries(node.attrs ?? {})) setAttribute(element, name, value);
  for (const child of node.children ?? []) element.append(create(child));
  return node.tag === "table" ? scrolling(element, "Table") : element;
}

const inside = (shown, node) => (node.tag === "table" ? shown.firstChild : shown);

function setAttribute(element, name, value) {
  if (name === "href" && safeUrl(value)) {
    element.href = value;
    element.target = "_blank";
    element.rel = "noopener noreferrer nofollow";
  } else if (name === "class" && CLASSES.has(value)) {
    element.className = value;
  } else if (name === "scope") {
    element.scope = "col";
  } else if (name === "start") {
    element.start = Number(value);
  }
}

// What may be wider than the page scrolls in a box of its own, by keyboard too.
function scrolling(element, label) {
  const box = document.createElement("div");
  box.className = "scroll";
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  box.append(element);
  return box;
}

function createFence(node) {
  const box = document.createElement("div");
  box.className = "fence";
  const bar = document.createElement("div");
  bar.className = "bar";
  const lang = document.createElement("span");
  lang.textContent = node.lang;
  const copy = document.createElement("button");
  copy.type = "button";
  copy.dataset.copy = "code";
  copy.textContent = "Copy";
  copy.setAttribute("aria-label", "Copy the code");
  bar.append(lang, copy);
  const pre = document.createElement("pre");
  pre.tabIndex = 0;
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", "Code");
  const code = document.createElement("code");
  code.append(document.createTextNode(node.text));
  pre.append(code);
  box.append(bar, pre);
  return box;
}

function patchFence(shown, before, after) {
  shown.querySelector(".bar span").textContent = after.lang;
  patch(shown.querySelector("code").firstChild, before.text, after.text);
}
