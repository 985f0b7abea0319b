import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

// The licences of the libraries inside the bundle stand at its top.
const notices = ["preact", "@preact/signals", "@preact/signals-core"].map(
  (name) => `${name}\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}`,
);
const banner = `/*! regard lab\n\n${notices.join("\n\n")}\n*/`;

export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/regard/page/bundle",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.tsx",
      preserveEntrySignatures: "strict", // the export for notebooks stays
      output: {
        postBanner: banner, // a plain banner would be minified away
        entryFileNames: "lab.js",
        assetFileNames: "lab[extname]",
      },
    },
  },
});
