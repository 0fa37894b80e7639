// Checks Python files, the arguments, by the rules of ruff.toml, and their format. It exits with 1 if there is a finding.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PositionEncoding, Workspace } from "@astral-sh/ruff-wasm-nodejs";
import { parse } from "smol-toml";

const options = parse(readFileSync(join(import.meta.dirname, "ruff.toml"), "utf8"));
const workspace = new Workspace(options, PositionEncoding.Utf16);
const files = process.argv.slice(2);
if (files.length === 0) {
  throw new Error("usage: node ruff.js FILE...");
}
for (const file of files) {
  const text = readFileSync(file, "utf8");
  const report = (row, column, message) => {
    console.log(`${file}:${row}:${column}: ${message}`);
    process.exitCode = 1;
  };
  for (const d of workspace.check(text)) {
    report(d.start_location.row, d.start_location.column, `${d.code ?? "syntax"} ${d.message}`);
  }
  const formatted = workspace.format(text).split("\n");
  const row = text.split("\n").findIndex((line, i) => line !== formatted[i]);
  if (row >= 0) {
    report(row + 1, 1, `the format differs: ${formatted[row]}`);
  }
}
