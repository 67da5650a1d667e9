// Text inside a block to nodes: emphasis, code, links. A node is a string or
// {tag, attrs?, children?}; what becomes of it in a document is not known here.
//
// Time grows linearly with the text, whatever it says: each kind of bracket or run that
// finds no partner is remembered instead of being looked for again.

const TOKEN = new RegExp(
  [
    "\\\\[!-/:-@[-`{-~]", // an escaped character
    "`+",
    "\\*+|_+|~~",
    "!?\\[",
    "\\]",
    "<https?://[^\\s<>]*>",
    "&(?:amp|lt|gt|quot|nbsp|#39);",
    "https?://[^\\s<]+",
    "[ \\\\]*\\n",
  ].join("|"),
  "gi",
);
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0", "#39": "'" };
const TARGET =
  /\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const HALF_TARGET = /\([^\s()]*(?:\s+"[^"]*)?$/y;
const SPACE = /^\s?$/;
const PUNCTUATION = /[\p{P}\p{S}]/u;

/**
 * Read the text of one block.
 *
 * @param {string} text Line breaks are kept.
 * @param {boolean} open More text follows: what is begun at the end counts as meant.
 */
export function inline(text, open = false) {
  const scan = { text, open, items: [], brackets: [], ticks: tickRuns(text) };
  let at = 0;
  TOKEN.lastIndex = 0;
  for (let found; (found = TOKEN.exec(text)); ) {
    if (found.index > at) scan.items.push(text.slice(at, found.index));
    at = take(scan, found[0], found.index);
    TOKEN.lastIndex = at;
  }
  if (at < text.length) scan.items.push(text.slice(at));
  return emphasise(scan.items, open);
}

/** The address if a page may link to it, else "". */
export function safeUrl(url) {
  return /^(?:https?:\/\/|mailto:)[^\s\u0000-\u001f]+$/i.test(url) ? url : "";
}

function take(scan, token, at) {
  const after = at + token.length;
  switch (token[0]) {
    case "\\":
      if (token.endsWith("\n")) scan.items.push({ tag: "br" });
      else scan.items.push(token[1]);
      return after;
    case "`":
      return takeCode(scan, token, at);
    case "*":
    case "_":
    case "~":
      scan.items.push(run(scan.text, token, at));
      return after;
    case "[":
    case "!":
      scan.brackets.push(scan.items.length);
      scan.items.push(token);
      return after;
    case "]":
      return takeLink(scan, after);
    case "<":
      scan.items.push(link(token.slice(1, -1), [token.slice(1, -1)]));
      return after;
    case "&":
      scan.items.push(ENTITIES[token.slice(1, -1).toLowerCase()]);
      return after;
    case "h":
    case "H":
      return takeUrl(scan, token, at);
    default:
      scan.items.push({ tag: "br" });
      return after;
  }
}

function tickRuns(text) {
  const runs = new Map();
  for (const { 0: ticks, index } of text.matchAll(/`+/g)) {
    if (!runs.has(ticks.length)) runs.set(ticks.length, []);
    runs.get(ticks.length).push(index);
  }
  for (const places of runs.values()) places.reverse();
  return runs;
}

function takeCode(scan, ticks, at) {
  const after = at + ticks.length;
  const places = scan.ticks.get(ticks.length) ?? [];
  while (places.length && places.at(-1) < after) places.pop();
  if (!places.length && !scan.open) {
    scan.items.push(ticks);
    return after;
  }
  const end = places.length ? places.at(-1) : scan.text.length;
  const code = scan.text.slice(after, end).replaceAll("\n", " ");
  const padded = /^ .* $/.test(code) && code.trim();
  const text = padded ? code.slice(1, -1) : code;
  if (text) scan.items.push({ tag: "code", children: [text] });
  return places.length ? end + ticks.length : end;
}

function takeUrl(scan, token, at) {
  let url = token.replace(/[?!.,:;*_~'"\]]+$/, "");
  if (url.endsWith(")") && !url.includes("(")) url = url.replace(/\)+$/, "");
  scan.items.push(link(url, [url]));
  return at + url.length;
}

function takeLink(scan, after) {
  const start = scan.brackets.pop();
  if (start === undefined) {
    scan.items.push("]");
    return after;
  }
  TARGET.lastIndex = HALF_TARGET.lastIndex = after;
  const target = TARGET.exec(scan.text);
  const half = !target && scan.open && HALF_TARGET.exec(scan.text);
  if (!target && !half) {
    scan.items.push("]");
    return after;
  }
  const inner = emphasise(scan.items.splice(start).slice(1), false);
  const children = inner.flatMap((node) => (node.tag === "a" ? node.children : [node]));
  // Pictures are not loaded: their addresses could tell others what was said here.
  scan.items.push(target ? link(target[1], children) : { tag: "span", children });
  scan.brackets.length = 0; // a link holds no link
  return after + (target || half)[0].length;
}

function link(url, children) {
  const href = safeUrl(url);
  const shown = children.length ? children : [url];
  return href ? { tag: "a", attrs: { href }, children: shown } : { tag: "span", children: shown };
}

// A run of * or _ or ~~, and whether emphasis may begin or end there (CommonMark's
// flanking rules).
function run(text, token, at) {
  const before = text[at - 1] ?? "";
  const behind = text[at + token.length] ?? "";
  const left = !SPACE.test(behind) && (!PUNCTUATION.test(behind) || touches(before));
  const right = !SPACE.test(before) && (!PUNCTUATION.test(before) || touches(behind));
  const word = token[0] === "_";
  return {
    mark: token[0],
    count: token.length,
    opens: left && (!word || !right || PUNCTUATION.test(before)),
    closes: right && (!word || !left || PUNCTUATION.test(behind)),
    last: at + token.length === text.length,
  };
}

const touches = (character) => SPACE.test(character) || PUNCTUATION.test(character);

function emphasise(items, open) {
  const out = [];
  const openers = { "*": 0, _: 0, "~": 0 };
  for (const item of items) {
    if (!item.mark) {
      out.push(item);
      continue;
    }
    let left = item.count;
    while (left && item.closes && openers[item.mark]) {
      left -= close(out, openers, lastOpener(out, item.mark), left);
    }
    if (!left || (open && item.last && !item.closes)) continue;
    if (item.opens) openers[item.mark] += 1;
    out.push(item.opens ? { mark: item.mark, count: left } : item.mark.repeat(left));
  }
  if (open) closeAll(out, openers);
  return merge(out);
}

function lastOpener(out, mark) {
  let index = out.length - 1;
  while (out[index].mark !== mark) index -= 1;
  return index;
}

// Wrap what stands behind an opener; returns how many marks that took.
function close(out, openers, index, available) {
  const opener = out[index];
  const taken = Math.min(opener.count, available, 2);
  const inner = out.splice(index + 1);
  for (const node of inner) if (node.mark) openers[node.mark] -= 1;
  const tag = opener.mark === "~" ? "del" : taken === 2 ? "strong" : "em";
  opener.count -= taken;
  if (!opener.count) {
    out.pop();
    openers[opener.mark] -= 1;
  }
  out.push({ tag, children: merge(inner) });
  return taken;
}

function closeAll(out, openers) {
  for (let index = out.length - 1; index >= 0; index -= 1) {
    while (out[index]?.mark && index < out.length - 1) close(out, openers, index, 2);
  }
}

// Marks without a partner are text, and texts side by side are one.
function merge(items) {
  const merged = [];
  for (const item of items) {
    const node = item.mark ? item.mark.repeat(item.count) : item;
    const text = typeof node === "string";
    if (text && typeof merged.at(-1) === "string") merged[merged.length - 1] += node;
    else if (node !== "") merged.push(node);
  }
  return merged;
}
