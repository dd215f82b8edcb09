// Print what TypeScript's language service says about every call in a folder, as JSON lines.
//
//     node bench/calls_typescript.mjs TYPESCRIPT FOLDER
//
// TYPESCRIPT is the folder of the npm package `typescript`. Run by bench/calls.py.
import { readFileSync, readdirSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { createRequire } from "node:module";

const [place, folder] = process.argv.slice(2);
const ts = createRequire(import.meta.url)(resolve(place));
const root = resolve(folder);

function* walk(at) {
  for (const entry of readdirSync(at, { withFileTypes: true })) {
    const path = join(at, entry.name);
    if (entry.isDirectory() && !["node_modules", ".git", "dist"].includes(entry.name)) yield* walk(path);
    else if (/\.(ts|tsx|js|jsx|mts|mjs)$/.test(entry.name) && !entry.name.endsWith(".d.ts")) yield path;
  }
}

const files = [...walk(root)].sort();
const texts = new Map();
const read = (path) => {
  if (!texts.has(path)) {
    try {
      texts.set(path, readFileSync(path, "utf8"));
    } catch {
      texts.set(path, undefined);
    }
  }
  return texts.get(path);
};
const options = {
  allowJs: true, checkJs: false, noEmit: true, target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler,
  jsx: ts.JsxEmit.Preserve, baseUrl: root, experimentalDecorators: true,
};
const host = {
  getCompilationSettings: () => options,
  getScriptFileNames: () => files,
  getScriptVersion: () => "1",
  getScriptSnapshot: (path) => {
    const text = read(path);
    return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
  },
  getCurrentDirectory: () => root,
  getDefaultLibFileName: (given) => ts.getDefaultLibFilePath(given),
  fileExists: ts.sys.fileExists, readFile: ts.sys.readFile, readDirectory: ts.sys.readDirectory,
  directoryExists: ts.sys.directoryExists, getDirectories: ts.sys.getDirectories,
};
const service = ts.createLanguageService(host);
const program = service.getProgram();

// Whether a definition is a parameter, or a variable of a function: no definition of the file.
function isVariable(found) {
  let node = ts.getTokenAtPosition(program.getSourceFile(found.fileName), found.textSpan.start);
  while (node && !ts.isVariableDeclaration(node) && !ts.isParameter(node) && !ts.isStatement(node)) {
    if (ts.isFunctionLike(node) || ts.isClassLike(node) || ts.isTypeElement(node)) return false;
    node = node.parent;
  }
  if (!node || ts.isStatement(node)) return false;
  if (ts.isParameter(node)) return true;
  for (let at = node.parent; at; at = at.parent) if (ts.isFunctionLike(at)) return true;
  return false;
}

for (const path of files) {
  const source = program.getSourceFile(path);
  if (!source) continue;
  const uri = relative(root, path);
  const visit = (node) => {
    if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
      let callee = node.expression;
      while (ts.isParenthesizedExpression(callee) || ts.isNonNullExpression(callee)) callee = callee.expression;
      const name = ts.isPropertyAccessExpression(callee) ? callee.name : callee;
      if (ts.isIdentifier(name)) {
        const targets = [];
        let outside = false;
        for (const found of service.getDefinitionAtPosition(path, name.getStart()) ?? []) {
          const inside = relative(root, found.fileName);
          if (inside.startsWith("..") || inside.includes("node_modules")) outside = true;
          // An import that was not resolved: the tool does not know more.
          else if (found.kind !== "alias" && !isVariable(found)) {
            const text = read(found.fileName) ?? "";
            const line = text.slice(0, found.textSpan.start).split("\n").length;
            targets.push([inside, line, found.kind]);
          }
        }
        const line = source.getLineAndCharacterOfPosition(name.getStart()).line + 1;
        console.log(JSON.stringify({ uri, line, name: name.text, targets, outside }));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}
