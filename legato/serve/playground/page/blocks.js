// Markdown's blocks: headings, paragraphs, lists, quotes, fenced code, tables, rules.
//
// Lines decide from left to right, looking at most one line ahead, so that the blocks
// before the last one stand for good once a whole line begins another. Left out on
// purpose: HTML (it is text here), indented code and underlined headings, which models
// write by accident more often than on purpose.

import { inline } from "./inline.js";

const MAX_DEPTH = 12;
const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})[ \t]*(\S*)/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|(\d{1,9})[.)])([ \t]+|$)/;
const DASHES = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const TASK = /^\[([ xX])\][ \t]+/;

/**
 * Read Markdown.
 *
 * @param {string} text Without carriage returns.
 * @param {{open?: boolean}} options open: more text follows the end.
 * @returns {{node: object, start: number}[]} Nodes, and where in the text each begins.
 */
export function parse(text, { open = false } = {}) {
  const lines = text.split("\n");
  const starts = [0];
  for (const line of lines) starts.push(starts.at(-1) + line.length + 1);
  return blocks(lines, 0, open).map(({ node, line }) => ({ node, start: starts[line] }));
}

function blocks(lines, depth, open) {
  const found = [];
  for (let line = 0; line < lines.length; ) {
    if (isBlank(lines[line])) {
      line += 1;
      continue;
    }
    const rule = RULES.find((one) => one.starts(lines, line, depth));
    const { node, next } = rule.read(lines, line, depth, open);
    found.push({ node, line });
    line = next;
  }
  return found;
}

const isBlank = (line) => !line.trim();
const indentOf = (line) => line.length - line.trimStart().length;
const nodesOf = (lines, depth, open) => blocks(lines, depth, open).map(({ node }) => node);

const fence = {
  starts: (lines, line) => FENCE.test(lines[line]),
  read(lines, line, _depth, open) {
    const [, indent, marks, lang] = FENCE.exec(lines[line]);
    const shortest = marks.length;
    const isEnd = (text) => {
      const trimmed = text.trim();
      return (
        trimmed.length >= shortest &&
        indentOf(text) < 4 &&
        trimmed === marks[0].repeat(trimmed.length)
      );
    };
    let next = line + 1;
    while (next < lines.length && !isEnd(lines[next])) next += 1;
    const inner = lines.slice(line + 1, next).map((text) => unindent(text, indent.length));
    const ended = next < lines.length;
    // The first marks of the end are no code yet.
    if (open && !ended && /^ {0,3}(`+|~+)$/.test(inner.at(-1) ?? "")) inner.pop();
    return { node: { tag: "fence", lang, text: inner.join("\n") }, next: next + 1 };
  },
};

const heading = {
  starts: (lines, line) => HEADING.test(lines[line]),
  read(lines, line, _depth, open) {
    const [all, marks] = HEADING.exec(lines[line]);
    const text = lines[line].slice(all.length).trim().replace(/(?:^|[ \t])#+$/, "");
    const tag = `h${marks.length}`;
    const node = { tag, children: inline(text.trimEnd(), open && line === lines.length - 1) };
    return { node, next: line + 1 };
  },
};

const rule = {
  starts(lines, line) {
    const marks = lines[line].replace(/[ \t]/g, "");
    return (
      marks.length > 2 &&
      "-*_".includes(marks[0]) &&
      indentOf(lines[line]) < 4 &&
      marks === marks[0].repeat(marks.length)
    );
  },
  read: (_lines, line) => ({ node: { tag: "hr" }, next: line + 1 }),
};

const quote = {
  starts: (lines, line, depth) => depth < MAX_DEPTH && QUOTE.test(lines[line]),
  read(lines, line, depth, open) {
    const inner = [];
    let next = line;
    for (; next < lines.length; next += 1) {
      if (QUOTE.test(lines[next])) inner.push(lines[next].replace(QUOTE, ""));
      else if (goesOn(lines, next, depth) && !isBlank(inner.at(-1))) inner.push(lines[next]);
      else break;
    }
    const children = nodesOf(inner, depth + 1, open && next === lines.length);
    return { node: { tag: "blockquote", children }, next };
  },
};

const list = {
  starts(lines, line, depth) {
    const item = ITEM.exec(lines[line]);
    return depth < MAX_DEPTH && Boolean(item) && item[1].length < 4;
  },
  read(lines, line, depth, open) {
    const first = ITEM.exec(lines[line]);
    const items = [];
    let loose = false;
    let next = line;
    while (next < lines.length) {
      const item = ITEM.exec(lines[next]);
      if (!item || item[1].length > first[1].length + 1 || kind(item) !== kind(first)) break;
      if (rule.starts(lines, next)) break;
      const taken = readItem(lines, next, item, depth);
      loose ||= taken.loose || (taken.blank && continues(lines[taken.next], first));
      items.push(taken);
      next = taken.next;
    }
    const children = items.map(({ inner }, index) => {
      const last = index === items.length - 1 && next === lines.length;
      return { tag: "li", children: itemNodes(inner, depth + 1, open && last, loose) };
    });
    const node = { tag: first[3] ? "ol" : "ul", children };
    if (first[3] && first[3] !== "1") node.attrs = { start: String(Number(first[3])) };
    return { node, next };
  },
};

const kind = (item) => item[2].at(-1);

function continues(line, first) {
  const item = line === undefined ? null : ITEM.exec(line);
  return Boolean(item) && kind(item) === kind(first) && item[1].length <= first[1].length + 1;
}

function readItem(lines, line, item, depth) {
  const space = item[4].length > 4 ? 1 : item[4].length || 1;
  const width = item[1].length + item[2].length + space;
  const inner = [lines[line].slice(Math.min(width, lines[line].length))];
  let next = line + 1;
  let blank = false;
  let loose = false;
  for (; next < lines.length; next += 1) {
    const text = lines[next];
    const empty = isBlank(text);
    if (!empty) {
      // Two spaces are enough for an inner list, whatever the marker's width.
      const deeper = ITEM.test(text) && indentOf(text) > item[1].length + 1;
      const lazy = !blank && !ITEM.test(text) && goesOn(lines, next, depth);
      if (indentOf(text) < width && !deeper && !lazy) break;
      loose ||= blank && indentOf(text) >= width && !ITEM.test(text);
    }
    inner.push(unindent(text, width));
    blank = empty;
  }
  return { inner, next, blank, loose };
}

function itemNodes(lines, depth, open, loose) {
  const task = TASK.exec(lines[0]);
  const rest = task ? [lines[0].slice(task[0].length), ...lines.slice(1)] : lines;
  const inner = nodesOf(rest, depth, open);
  const children = loose
    ? inner
    : inner.flatMap((node) => (node.tag === "p" ? node.children : [node]));
  if (!task) return children;
  const mark = task[1] === " " ? "☐ " : "☑ ";
  const [first] = children;
  return first?.tag === "p"
    ? [{ tag: "p", children: [mark, ...first.children] }, ...children.slice(1)]
    : [mark, ...children];
}

const table = {
  starts(lines, line) {
    return (
      line + 1 < lines.length &&
      lines[line].includes("|") &&
      DASHES.test(lines[line + 1]) &&
      cells(lines[line]).length === cells(lines[line + 1]).length
    );
  },
  read(lines, line, depth) {
    const sides = cells(lines[line + 1]).map(side);
    const head = { tag: "tr", children: row(lines[line], sides, "th") };
    const body = [];
    let next = line + 2;
    while (next < lines.length && goesOn(lines, next, depth)) {
      body.push({ tag: "tr", children: row(lines[next], sides, "td") });
      next += 1;
    }
    const children = [{ tag: "thead", children: [head] }];
    if (body.length) children.push({ tag: "tbody", children: body });
    return { node: { tag: "table", children }, next };
  },
};

function cells(line) {
  const trimmed = line.trim().replace(/^\|/, "");
  const found = [""];
  for (const piece of trimmed.split(/(\\\||\|)/)) {
    if (piece === "|") found.push("");
    else found[found.length - 1] += piece === "\\|" ? "|" : piece;
  }
  if (found.length > 1 && isBlank(found.at(-1))) found.pop();
  return found.map((cell) => cell.trim());
}

function side(dashes) {
  if (dashes.endsWith(":")) return dashes.startsWith(":") ? "center" : "right";
  return "";
}

function row(line, sides, tag) {
  return cells(line)
    .slice(0, sides.length)
    .map((cell, index) => {
      const attrs = tag === "th" ? { scope: "col" } : {};
      if (sides[index]) attrs.class = sides[index];
      return { tag, attrs, children: inline(cell) };
    });
}

const paragraph = {
  starts: () => true,
  read(lines, line, depth, open) {
    let next = line + 1;
    while (next < lines.length && goesOn(lines, next, depth)) next += 1;
    const text = lines.slice(line, next).map((one) => one.trimStart());
    const last = open && next === lines.length;
    return { node: { tag: "p", children: inline(text.join("\n").trimEnd(), last) }, next };
  },
};

const RULES = [fence, heading, rule, quote, list, table, paragraph];

// Whether a line can belong to the paragraph before it.
function goesOn(lines, line, depth) {
  if (isBlank(lines[line])) return false;
  const starts = RULES.find((one) => one.starts(lines, line, depth));
  if (starts !== list) return starts === paragraph;
  const item = ITEM.exec(lines[line]);
  return !item[4] || (item[3] !== undefined && item[3] !== "1");
}

function unindent(line, width) {
  return line.slice(Math.min(width, indentOf(line)));
}
