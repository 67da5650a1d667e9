// Markdown that is still being written. Blocks that no further text can change are
// settled and never read again, so that the work for a delta does not grow with the
// answer before it.

import { parse } from "./blocks.js";

const PAGE_LEVELS = 2;
const LOWEST_LEVEL = 6;

export class Markdown {
  #text = "";
  #settled = [];
  #tail = [];
  #start = 0; // of the tail
  #checked = 0; // lines before this were asked whether they settle a block
  #outline = []; // levels of the settled headings that the next may stand under

  /** Everything written. */
  get text() {
    return this.#text;
  }

  /** The nodes of all blocks; those before `settled` stay as they are. */
  get nodes() {
    return [...this.#settled, ...this.#tail];
  }

  /** How many blocks are settled. */
  get settled() {
    return this.#settled.length;
  }

  /** Add text. */
  write(text) {
    this.#text += text.replaceAll("\r", "");
    this.#settle();
    this.#read(true);
  }

  /** Nothing follows: what was begun and not ended is text after all. */
  end() {
    this.#read(false);
  }

  // Only whole lines settle a block: half a line may yet turn out as anything.
  #settle() {
    const whole = this.#text.lastIndexOf("\n") + 1;
    if (whole <= this.#checked) return;
    this.#checked = whole;
    const found = parse(this.#text.slice(this.#start, whole));
    if (found.length < 2) return;
    const last = found.pop();
    this.#settled.push(...found.map(({ node }) => place(node, this.#outline)));
    this.#start += last.start;
  }

  #read(open) {
    const outline = [...this.#outline];
    const found = parse(this.#text.slice(this.#start), { open });
    this.#tail = found.map(({ node }) => place(node, outline));
  }
}

// A model begins with any level and leaves some out; in the page headings stand one
// below the other without a gap, under the page's own.
function place(node, outline) {
  const level = /^h([1-6])$/.exec(node.tag)?.[1];
  if (!level) {
    if (/^(blockquote|ul|ol|li)$/.test(node.tag)) {
      return { ...node, children: node.children.map((child) => place(child, outline)) };
    }
    return node;
  }
  while (outline.length && outline.at(-1) >= level) outline.pop();
  outline.push(level);
  return { ...node, tag: `h${Math.min(LOWEST_LEVEL, PAGE_LEVELS + outline.length)}` };
}
