// Shows a status on the dashboard's own page, without a browser, and prints what stands there: an
// object of texts by the id of their element, and the facts of each peer.
//
//   node page_reader.mjs FOLDER-OF-THE-PAGE LISTED.js STATUS.json
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {pathToFileURL} from "node:url";

const [, , folder, listedFile, statusFile] = process.argv;
const status = JSON.parse(readFileSync(statusFile, "utf8"));

// As much of a document as the page asks for.
class Element {
  constructor(name) {
    this.name = name;
    this.children = [];
    this.dataset = {};
    this.style = {};
    this.text = "";
    this.value = "";
    this.classList = {toggle() {}, contains: () => false};
  }
  get textContent() { return this.text + this.children.map((one) => one.textContent).join(" "); }
  set textContent(text) { this.text = String(text); this.children = []; }
  get firstElementChild() { return this.children[0] || null; }
  get lastElementChild() { return this.children[this.children.length - 1] || null; }
  get nextElementSibling() { return null; }
  append(...nodes) {
    for (const node of nodes) {
      if (typeof node === "string") this.text += node;
      else this.children.push(node);
    }
  }
  insertBefore(node) { this.children.push(node); }
  replaceChildren(...nodes) { this.text = ""; this.children = nodes; }
  remove() {}
  setAttribute() {}
  removeAttribute() {}
  addEventListener() {}
  querySelector() { return new Element("found"); }
}
const byId = new Map();
let news = null;
const location = {pathname: "/"};
Object.assign(globalThis, {
  location,
  document: {
    body: new Element("body"),
    documentElement: new Element("html"),
    title: "",
    addEventListener() {},
    createElement: (name) => new Element(name),
    querySelectorAll: () => [],
    getElementById: (id) => {
      if (!byId.has(id)) byId.set(id, new Element(id));
      return byId.get(id);
    },
  },
  getComputedStyle: () => ({getPropertyValue: () => ""}),
  matchMedia: () => ({addEventListener() {}}),
  addEventListener() {},
  setInterval() {},
  EventSource: class {
    addEventListener(kind, heard) {
      if (kind === "run") news = heard;
    }
  },
  Dygraph: class {
    static PLUGINS = [];
    static Plugins = {};
    updateOptions() {}
    destroy() {}
  },
});

const copy = mkdtempSync(join(tmpdir(), "atoll-page-"));
try {
  writeFileSync(join(copy, "listed.mjs"), readFileSync(listedFile));
  for (const name of ["figures.js", "charts.js", "page.js"]) {
    const text = readFileSync(join(folder, name), "utf8").replaceAll(/from "\/(\w+)\.js"/g, 'from "./$1.mjs"');
    writeFileSync(join(copy, name.replace(".js", ".mjs")), text);
  }
  await import(pathToFileURL(join(copy, "page.mjs")));
  const texts = {};
  const show = (prefix) => {
    news({data: JSON.stringify(status), lastEventId: ""});
    for (const [id, element] of byId) texts[prefix + id] = element.textContent;
  };
  show("");
  for (const peer of status.peers) {
    location.pathname = `/peer/${peer.member.peer}`;
    show(`${peer.member.peer} `);
  }
  console.log(JSON.stringify(texts));
} finally {
  rmSync(copy, {recursive: true});
}
