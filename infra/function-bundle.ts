import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { AssetHashType, DockerImage } from "aws-cdk-lib";
import { Code } from "aws-cdk-lib/aws-lambda";
import { type BuildOptions, buildSync, type Metafile } from "esbuild";

const ROOT = join(import.meta.dirname, "..");
const FILE = "index.mjs";

/** What Lambda is told to call: the bundle's file and the export. */
export const BUNDLE_HANDLER = "index.handler";

/** How every function is bundled; a size is only comparable with one that was made with these. */
const BUNDLE_OPTIONS = {
  absWorkingDir: ROOT,
  // A name at the root and nothing written: the paths in the source map then are the repository's own.
  outfile: FILE,
  write: false,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node24",
  minify: true,
  sourcemap: "linked",
  sourcesContent: false,
  metafile: true,
  // The packages' ES modules can be tree-shaken; this takes two fifths off a bundle.
  mainFields: ["module", "main"],
  // CommonJS packages still call `require` for Node's own modules.
  banner: {
    js: 'import{createRequire as __createRequire}from"node:module";const require=__createRequire(import.meta.url);',
  },
  logLevel: "error",
} as const satisfies BuildOptions;

/** Where the SDK's chain of credential providers is left out of functions. */
const LAMBDA_ALIAS = { "@aws-sdk/credential-provider-node": "./shared/runtime/lambda-credentials.ts" };

/** A function as it is deployed. */
export interface FunctionBundle {
  /** File name and contents. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Bytes of code, without the source map. */
  readonly size: number;
  readonly inputs: Metafile["inputs"];
}

/** Bundles an entry point; `entry` is its path in the repository. Needs neither Docker nor the network. */
export function bundleFunction(entry: string): FunctionBundle {
  return toBundle(buildSync({ ...BUNDLE_OPTIONS, alias: LAMBDA_ALIAS, entryPoints: [entry] }));
}

/** Bundles source text as if it lay at the repository's root and as most people would; to measure against. */
export function bundleText(contents: string): FunctionBundle {
  return toBundle(buildSync({ ...BUNDLE_OPTIONS, stdin: { contents, resolveDir: ROOT, loader: "ts" } }));
}

function toBundle(result: ReturnType<typeof buildSync<typeof BUNDLE_OPTIONS>>): FunctionBundle {
  const files = new Map(
    result.outputFiles.map((file) => [file.path.endsWith(".map") ? `${FILE}.map` : FILE, file.contents]),
  );
  const outputs = Object.values(result.metafile.outputs);
  const used = new Set(
    outputs.flatMap((output) =>
      Object.entries(output.inputs).flatMap(([path, input]) => (input.bytesInOutput > 0 ? [path] : [])),
    ),
  );
  return {
    files,
    size: files.get(FILE)?.byteLength ?? 0,
    // What was shaken off is not deployed.
    inputs: Object.fromEntries(Object.entries(result.metafile.inputs).filter(([path]) => used.has(path))),
  };
}

/** Writes a bundle's files into a folder. */
export function writeBundle(bundle: FunctionBundle, folder: string): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, contents] of bundle.files) writeFileSync(join(folder, name), contents);
}

/**
 * An entry point's bundle as Lambda code, with files (names and texts) beside it; the asset's hash is that of its contents.
 */
export function createFunctionCode(entry: string, files: Readonly<Record<string, string>> = {}): Code {
  return Code.fromAsset(join(ROOT, dirname(entry)), {
    assetHashType: AssetHashType.OUTPUT,
    bundling: {
      // CDK wants an image to fall back on; the local bundler below never declines.
      image: DockerImage.fromRegistry("scratch"),
      // CDK takes two bundlings of one folder for the same unless something here tells them apart.
      environment: { FILES: createHash("sha256").update(JSON.stringify(files)).digest("hex") },
      local: {
        tryBundle(folder) {
          writeBundle(bundleFunction(entry), folder);
          for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
          return true;
        },
      },
    },
  });
}
