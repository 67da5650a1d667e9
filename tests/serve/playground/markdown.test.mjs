// Markdown to nodes: what is read, that streaming reads the same, and that nothing
// that a model writes becomes anything but text, links and emphasis.

import assert from "node:assert/strict";
import test from "node:test";

import { parse } from "../../../legato/serve/playground/page/blocks.js";
import { safeUrl } from "../../../legato/serve/playground/page/inline.js";
import { Markdown } from "../../../legato/serve/playground/page/markdown.js";

function show(node) {
  if (typeof node === "string") return node.replaceAll("<", "&lt;");
  if (node.tag === "fence") return `<fence ${node.lang}>${node.text}</fence>`;
  const attrs = Object.entries(node.attrs ?? {}).map(([name, value]) => ` ${name}=${value}`);
  const inner = (node.children ?? []).map(show).join("");
  return `<${node.tag}${attrs.join("")}>${inner}</${node.tag}>`;
}
const read = (text, open = false) =>
  parse(text, { open })
    .map(({ node }) => show(node))
    .join("");

const READ = {
  emphasis: ["*a* **b** ***c*** ~~d~~", "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del></p>"],
  "nested emphasis": ["**a _b_ c**", "<p><strong>a <em>b</em> c</strong></p>"],
  "words with underscores": ["snake_case_name", "<p>snake_case_name</p>"],
  "stars that multiply": ["2 * 3 * 4", "<p>2 * 3 * 4</p>"],
  escapes: ["\\*a\\* \\<b>", "<p>*a* &lt;b></p>"],
  entities: ["a &lt; b &amp;c &copy;", "<p>a &lt; b &c &copy;</p>"],
  code: ["`` a`b `` `*x*`", "<p><code>a`b</code> <code>*x*</code></p>"],
  links: ['[a *b*](https://x.y/(z) "t")', "<p><a href=https://x.y/(z)>a <em>b</em></a></p>"],
  "bare addresses": ["see https://a.b/c_d_e.", "<p>see <a href=https://a.b/c_d_e>https://a.b/c_d_e</a>.</p>"],
  "lines of a paragraph": ["a\nb", "<p>a<br></br>b</p>"],
  headings: ["# a ##\n### b", "<h1>a</h1><h3>b</h3>"],
  "no heading": ["#a", "<p>#a</p>"],
  rules: ["a\n***\nb", "<p>a</p><hr></hr><p>b</p>"],
  fences: ["```js\n**a**\n\n<b>\n```\nb", "<fence js>**a**\n\n<b></fence><p>b</p>"],
  "longer fences": ["````\n```\n````", "<fence >```</fence>"],
  "fences that never end": ["~~~\na", "<fence >a</fence>"],
  quotes: ["> a\nb\n>> c", "<blockquote><p>a<br></br>b</p><blockquote><p>c</p></blockquote></blockquote>"],
  lists: ["- a\n- b\n  1. c\n  2. d", "<ul><li>a</li><li>b<ol><li>c</li><li>d</li></ol></li></ul>"],
  "lists that begin later": ["3. a\n4. b", "<ol start=3><li>a</li><li>b</li></ol>"],
  "loose lists": ["- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"],
  "code in lists": ["1. a\n   ```\n   x\n    y\n   ```\n2. b", "<ol><li>a<fence >x\n y</fence></li><li>b</li></ol>"],
  "lists with a narrow indent": ["1. a\n  - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"],
  tasks: ["- [x] a\n- [ ] b", "<ul><li>☑ a</li><li>☐ b</li></ul>"],
  "numbers in text": ["born in\n1984. It was", "<p>born in<br></br>1984. It was</p>"],
  tables: [
    "| a | b\\|c |\n|:-:|--:|\n| `x` | 1 |\n\nend",
    "<table><thead><tr><th scope=col class=center>a</th><th scope=col class=right>b|c</th></tr></thead>" +
      "<tbody><tr><td class=center><code>x</code></td><td class=right>1</td></tr></tbody></table><p>end</p>",
  ],
};
for (const [name, [text, expected]] of Object.entries(READ)) {
  test(`it reads ${name}`, () => assert.equal(read(text), expected));
}

const OPEN = {
  "bold that has begun": ["a **b", "<p>a <strong>b</strong></p>"],
  "marks that stand at the end": ["a **", "<p>a </p>"],
  "code that has begun": ["a `b", "<p>a <code>b</code></p>"],
  "an address that has begun": ["[a](https://x", "<p><span>a</span></p>"],
  "the end of a fence": ["```\na\n``", "<fence >a</fence>"],
};
for (const [name, [text, expected]] of Object.entries(OPEN)) {
  test(`while text arrives, it hides ${name}`, () => assert.equal(read(text, true), expected));
  test(`at the end, ${name} is text after all`, () => assert.notEqual(read(text), expected));
}

test("HTML is text", () => {
  const attack = '<img src=x onerror=alert(1)><script>alert(1)</script><a href="javascript:x">y</a>';
  assert.deepEqual(parse(attack), [{ node: { tag: "p", children: [attack] }, start: 0 }]);
});

test("only web and mail addresses become links", () => {
  for (const url of ["https://a.b", "HTTP://a", "mailto:a@b"]) assert.equal(safeUrl(url), url);
  const bad = ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "//a.b", "/a", "#a", "https://", "https://a b", "blob:https://a", ""];
  for (const url of bad) assert.equal(safeUrl(url), "");
  assert.equal(read("[a](javascript:alert(1))"), "<p><span>a</span></p>");
  assert.equal(read("![a](https://x/leak?q)"), "<p><a href=https://x/leak?q>a</a></p>");
});

const PIECES = ["\n", "\n", "\n\n", " ", "  ", "    ", "- ", "1. ", "2. ", "* ", "**", "*", "_", "`", "```", "~~~", "> ", "# ", "|", "|-|-|", "|a|b|", "---", "a", "b c", "[", "](http://x)", "]", "(", ")", "<b>", "\\", "&amp;", "http://q.r", "~~", "   - ", "js", "é", "🌍"];

function whole(text) {
  const markdown = new Markdown();
  markdown.write(text);
  markdown.end();
  return markdown.nodes;
}

test("headings stand one below the other, under the page's own", () => {
  const tags = whole("## a\n## b\n#### c\n> ##### d\n# e\n").map(({ tag }) => tag);
  assert.deepEqual(tags, ["h3", "h3", "h4", "blockquote", "h3"]);
  assert.equal(whole("## a\n#### c\n> ##### d")[2].children[0].tag, "h5");
});

function random(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return Math.floor((state / 0x80000000) * below);
  };
}

function anyText(draw) {
  const count = 1 + draw(25);
  return Array.from({ length: count }, () => PIECES[draw(PIECES.length)]).join("");
}

test("text that arrives in pieces is read as the whole is", () => {
  const draw = random(7);
  for (let round = 0; round < 4000; round += 1) {
    const text = anyText(draw);
    const markdown = new Markdown();
    let settled = [];
    for (let at = 0; at < text.length; ) {
      const size = 1 + draw(4);
      markdown.write(text.slice(at, at + size));
      at += size;
      const now = markdown.nodes.slice(0, markdown.settled);
      assert.deepEqual(now.slice(0, settled.length), settled);
      settled = now;
    }
    markdown.end();
    assert.deepEqual(markdown.nodes, whole(text), JSON.stringify(text));
  }
});

test("whatever is written, only known nodes come out", () => {
  const draw = random(11);
  const tags = /^(p|h[3-6]|hr|br|ul|ol|li|blockquote|table|thead|tbody|tr|th|td|strong|em|del|code|a|span|fence)$/;
  const check = (node) => {
    if (typeof node === "string") return;
    assert.match(node.tag, tags);
    if (node.attrs?.href !== undefined) assert.equal(safeUrl(node.attrs.href), node.attrs.href);
    for (const name of Object.keys(node.attrs ?? {})) assert.match(name, /^(href|start|class|scope)$/);
    (node.children ?? []).forEach(check);
  };
  for (let round = 0; round < 4000; round += 1) whole(anyText(draw)).forEach(check);
});

test("no text makes the work grow with its square", () => {
  for (const piece of ["[", "*", "**a ", "`", "> ", "- ", "(", "](", "[a](", "~~a", "_a ", "\\", "|", "1. ", "* a\n  ", "[[](", " *a", "`a``", "<http://", "#"]) {
    for (const open of [false, true]) {
      // Squared, this would take minutes; the runner's own limit is the judge.
      parse(piece.repeat(30_000), { open });
    }
  }
});

test("settled blocks are not read again", () => {
  const markdown = new Markdown();
  for (let index = 0; index < 100; index += 1) markdown.write(`paragraph ${index}\n\n`);
  assert.equal(markdown.settled, 99);
  const [first] = markdown.nodes;
  markdown.write("more");
  assert.equal(markdown.nodes[0], first);
});
