import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TestCertificates {
  /** PEM of a certificate authority of one's own. */
  readonly ca: string;
  /** For 127.0.0.1 and the name `harbour.example`. */
  readonly server: { readonly cert: string; readonly key: string };
  /** For the user `tallyman`. */
  readonly client: { readonly cert: string; readonly key: string };
}

/** Makes certificates for one run with the openssl command; undefined where there is none. */
export function makeCertificates(): TestCertificates | undefined {
  const directory = mkdtempSync(join(tmpdir(), "tallyman-certificates-"));
  const openssl = (...args: string[]) => execFileSync("openssl", args, { cwd: directory, stdio: "pipe" });
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"];
  const issue = (name: string, subject: string, ...extensions: string[]) => {
    const extra = extensions.flatMap((extension) => ["-addext", extension]);
    const by = ["-CA", "ca.crt", "-CAkey", "ca.key"];
    openssl(
      "req",
      "-x509",
      ...newKey,
      ...by,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.crt`,
      "-subj",
      subject,
      ...extra,
    );
    return {
      cert: readFileSync(join(directory, `${name}.crt`), "utf8"),
      key: readFileSync(join(directory, `${name}.key`), "utf8"),
    };
  };
  try {
    openssl(
      "req",
      "-x509",
      ...newKey,
      "-keyout",
      "ca.key",
      "-out",
      "ca.crt",
      "-subj",
      "/CN=harbour authority",
    );
    return {
      ca: readFileSync(join(directory, "ca.crt"), "utf8"),
      server: issue(
        "server",
        "/CN=harbour",
        "subjectAltName=IP:127.0.0.1,DNS:harbour.example",
        "basicConstraints=critical,CA:FALSE",
      ),
      client: issue("client", "/CN=tallyman", "basicConstraints=critical,CA:FALSE"),
    };
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
