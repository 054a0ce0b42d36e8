import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer, type ServerOptions } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import { makeCertificates } from "../../test/engines/certificates.ts";
import { createTransport, type TransportOptions } from "./https-transport.ts";
import type { ClusterAccess } from "./transport.ts";

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function serve(
  answer: RequestListener,
  access: Partial<ClusterAccess> = {},
  options: TransportOptions = {},
) {
  const port = await listen(createServer(answer));
  const transport = createTransport({ server: `http://127.0.0.1:${port}`, ...access }, options);
  onTestFinished(() => transport.close());
  return { transport, port };
}

const get = { method: "GET", path: "/apis/x/v1/stages" } as const;
const json = (body: unknown): RequestListener => {
  return (_, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(body));
  };
};

describe("a request", () => {
  it("sends the body as JSON, a patch as a merge patch, and reads the answer", async () => {
    const seen: unknown[] = [];
    const { transport } = await serve((request, response) => {
      let text = "";
      request.on("data", (chunk) => {
        text += chunk;
      });
      request.on("end", () => {
        seen.push([request.method, request.url, request.headers["content-type"], text]);
        response.writeHead(201, { "x-harbour": "yes" }).end('{"ok":true}');
      });
    });
    const body = { name: "Läufer" };
    const path = "/api/v1/things";
    const answer = await transport.request({ method: "POST", path, body });
    expect(answer).toMatchObject({ status: 201, body: { ok: true }, headers: { "x-harbour": "yes" } });
    await transport.request({ method: "PATCH", path, body, query: { dryRun: "All", fieldManager: "a b" } });
    await transport.request({ method: "PATCH", path, body: [], contentType: "application/json-patch+json" });
    expect(seen).toEqual([
      ["POST", path, "application/json", JSON.stringify(body)],
      ["PATCH", `${path}?dryRun=All&fieldManager=a+b`, "application/merge-patch+json", JSON.stringify(body)],
      ["PATCH", path, "application/json-patch+json", "[]"],
    ]);
  });

  it("gives 4xx and 5xx as answers, an empty body as undefined, and what is no JSON as text", async () => {
    const { transport } = await serve((request, response) => {
      if (request.url === "/empty") response.writeHead(204).end();
      else if (request.url === "/text") response.writeHead(502).end("<h1>no upstream</h1>");
      else response.writeHead(404).end('{"kind":"Status"}');
    });
    await expect(transport.request({ ...get, path: "/empty" })).resolves.toMatchObject({
      status: 204,
      body: undefined,
    });
    await expect(transport.request({ ...get, path: "/text" })).resolves.toMatchObject({
      status: 502,
      body: "<h1>no upstream</h1>",
    });
    await expect(transport.request(get)).resolves.toMatchObject({ status: 404, body: { kind: "Status" } });
  });

  it("keeps its connections, and repeats a GET whose idle connection the server had closed", async () => {
    const connections = new Set<Socket>();
    const { transport } = await serve((request, response) => {
      connections.add(request.socket);
      json({ n: connections.size })(request, response);
    });
    await transport.request(get);
    await transport.request(get);
    expect(connections.size).toBe(1);
    // Closed at the very moment at which the next request goes out.
    for (const socket of connections) socket.resetAndDestroy();
    await expect(transport.request(get)).resolves.toMatchObject({ body: { n: 2 } });
  });

  it("goes below the path of a server that stands for several clusters", async () => {
    const { port } = await serve((request, response) => json(request.url)(request, response));
    const transport = createTransport({ server: `http://127.0.0.1:${port}/clusters/a/` });
    await expect(transport.request(get)).resolves.toMatchObject({ body: "/clusters/a/apis/x/v1/stages" });
    transport.close();
  });

  it("reads compressed answers", async () => {
    const { transport } = await serve((request, response) => {
      expect(request.headers["accept-encoding"]).toBe("gzip");
      response.setHeader("content-encoding", "gzip");
      response.end(gzipSync('{"text":"Läufer"}'));
    });
    await expect(transport.request(get)).resolves.toMatchObject({ body: { text: "Läufer" } });
  });
});

describe("no answer is Transient and names the call", () => {
  const naming = (kind: string, text: string) => ({
    name: "Fault",
    kind,
    message: expect.stringMatching(new RegExp(`^GET /apis/x/v1/stages: .*${text}`)),
  });

  it("when the connection is refused", async () => {
    const transport = createTransport({ server: "http://127.0.0.1:1" });
    await expect(transport.request(get)).rejects.toMatchObject(naming("Transient", "ECONNREFUSED"));
    await expect(transport.stream(get)).rejects.toMatchObject(naming("Transient", "ECONNREFUSED"));
  });

  it("when the connection is reset", async () => {
    const { transport } = await serve((request) => request.socket.resetAndDestroy());
    await expect(transport.request(get)).rejects.toMatchObject(naming("Transient", "ECONNRESET|hang up"));
  });

  it("when nothing comes in time, or the body stops coming", async () => {
    const { transport } = await serve((request, response) => {
      if (request.url !== "/half") return;
      response.writeHead(200);
      response.write("{");
    });
    await expect(transport.request({ ...get, timeoutMs: 30 })).rejects.toMatchObject(
      naming("Transient", "no answer within 30 ms"),
    );
    await expect(transport.stream({ ...get, timeoutMs: 30 })).rejects.toMatchObject(
      naming("Transient", "30 ms"),
    );
    await expect(transport.request({ ...get, path: "/half", timeoutMs: 30 })).rejects.toMatchObject({
      kind: "Transient",
      message: expect.stringContaining("stopped coming"),
    });
  });

  it.each([
    ["with a length", { "content-length": "100" }],
    ["in chunks", {}],
  ])("when a body %s is cut short", async (_, headers) => {
    const { transport } = await serve((_request, response) => {
      response.writeHead(200, headers);
      response.write('{"items":[', () => response.socket?.destroy());
    });
    await expect(transport.request(get)).rejects.toMatchObject(naming("Transient", "cut short"));
  });

  it("when the caller aborts, before or meanwhile", async () => {
    const { transport } = await serve(() => {});
    await expect(transport.request({ ...get, signal: AbortSignal.abort() })).rejects.toMatchObject(
      naming("Transient", "aborted by the caller"),
    );
    const abort = new AbortController();
    const pending = transport.request({ ...get, signal: abort.signal });
    setTimeout(() => abort.abort(), 10);
    await expect(pending).rejects.toMatchObject(naming("Transient", "aborted by the caller"));
  });

  it("but a body beyond the cap is Permanent: it would be too large again", async () => {
    const { transport } = await serve(
      (request, response) => {
        if (request.url === "/packed") {
          response.setHeader("content-encoding", "gzip");
          response.end(gzipSync("x".repeat(100_000)));
        } else if (request.url === "/chunked") {
          response.write("x".repeat(600));
          response.end("x".repeat(600));
        } else response.end("x".repeat(1_200));
      },
      {},
      { maxBodyBytes: 1_000 },
    );
    await expect(transport.request(get)).rejects.toMatchObject(naming("Permanent", "larger than 1000 bytes"));
    for (const path of ["/packed", "/chunked"]) {
      await expect(transport.request({ ...get, path })).rejects.toMatchObject({ kind: "Permanent" });
    }
  });
});

describe("the token", () => {
  const guarded: RequestListener = (request, response) => {
    if (request.headers.authorization === "Bearer good") json({ ok: true })(request, response);
    else response.writeHead(401).end('{"kind":"Status","code":401}');
  };

  it("is asked for before each request, and once more after a 401", async () => {
    const asked: boolean[] = [];
    const token = async (refresh: boolean) => {
      asked.push(refresh);
      return refresh ? "good" : "stale";
    };
    const { transport } = await serve(guarded, { token });
    await expect(transport.request(get)).resolves.toMatchObject({ status: 200 });
    const stream = await transport.stream(get);
    expect(stream.status).toBe(200);
    stream.body.destroy();
    expect(asked).toEqual([false, true, false, true]);
  });

  it("that stays bad gives the 401 after one repetition", async () => {
    let calls = 0;
    const { transport } = await serve(
      (request, response) => {
        calls += 1;
        guarded(request, response);
      },
      { token: async () => "bad" },
    );
    await expect(transport.request(get)).resolves.toMatchObject({ status: 401 });
    expect(calls).toBe(2);
  });

  it("that cannot be had is Transient, and appears in no message", async () => {
    const { transport } = await serve(guarded, { token: () => Promise.reject(new Error("plugin failed")) });
    await expect(transport.request(get)).rejects.toMatchObject({
      kind: "Transient",
      message: "GET /apis/x/v1/stages: no token: plugin failed",
    });
  });
});

describe("a stream", () => {
  it("does not use up the connections of requests, and ends with its signal", async () => {
    const { transport } = await serve(
      (request, response) => {
        if (request.url === "/quick") json(1)(request, response);
        else {
          response.writeHead(200);
          response.write("first\n");
        }
      },
      {},
      { maxSockets: 1 },
    );
    const abort = new AbortController();
    const streams = await Promise.all(
      [1, 2, 3].map(() => transport.stream({ ...get, signal: abort.signal })),
    );
    await expect(transport.request({ ...get, path: "/quick" })).resolves.toMatchObject({ body: 1 });
    const ends = streams.map(async ({ body }) => {
      for await (const chunk of body) expect(String(chunk)).toBe("first\n");
    });
    setTimeout(() => abort.abort(), 10);
    const outcomes = await Promise.allSettled(ends);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  });
});

describe("the server's address", () => {
  it.each([
    "http://10.0.0.1:8080",
    "http://harbour.example",
    "http://127.0.0.1.example",
    "http://localhost.example",
  ])("%s is refused: a token must not cross a network in the clear", (server) => {
    expect(() => createTransport({ server })).toThrow(expect.objectContaining({ kind: "Invalid" }));
  });

  it.each([
    "http://127.0.0.1:8001",
    "http://[::1]:8001",
    "http://localhost:8001",
    "https://harbour.example:6443",
  ])("%s is taken", (server) => {
    createTransport({ server }).close();
  });

  it.each(["", "harbour:6443", "ftp://harbour"])("%j is refused as no address", (server) => {
    expect(() => createTransport({ server })).toThrow(/must be an https: URL/);
  });
});

const certificates = makeCertificates();

describe.skipIf(certificates === undefined)("TLS", () => {
  if (certificates === undefined) return;
  const { ca, server, client } = certificates;

  async function serveTls(options: ServerOptions = {}) {
    const port = await listen(
      createTlsServer({ ...server, ...options }, (request, response) => {
        const socket = request.socket as TLSSocket;
        const peer = socket.getPeerCertificate();
        json({ user: peer?.subject?.CN ?? null, name: (socket as { servername?: unknown }).servername })(
          request,
          response,
        );
      }),
    );
    return `https://127.0.0.1:${port}`;
  }

  async function call(access: ClusterAccess) {
    const transport = createTransport(access);
    onTestFinished(() => transport.close());
    return transport.request(get);
  }

  it("takes a server of the given authority, and no other", async () => {
    const address = await serveTls();
    await expect(call({ server: address, ca })).resolves.toMatchObject({ status: 200 });
    await expect(call({ server: address })).rejects.toMatchObject({
      kind: "Transient",
      message: expect.stringMatching(/^GET .*certificate/),
    });
    await expect(call({ server: address, insecureSkipTlsVerify: true })).resolves.toMatchObject({
      status: 200,
    });
  });

  it("checks the name, and takes another one for a tunnel", async () => {
    const address = (await serveTls()).replace("127.0.0.1", "localhost");
    await expect(call({ server: address, ca })).rejects.toMatchObject({ kind: "Transient" });
    await expect(call({ server: address, ca, tlsServerName: "harbour.example" })).resolves.toMatchObject({
      body: { name: "harbour.example" },
    });
  });

  it("shows a client certificate, also one that came later", async () => {
    const address = await serveTls({ ca, requestCert: true, rejectUnauthorized: false });
    let clientCertificate: typeof client | undefined;
    const access = {
      server: address,
      ca,
      get clientCertificate() {
        return clientCertificate as typeof client;
      },
    };
    const transport = createTransport(access);
    onTestFinished(() => transport.close());
    await expect(transport.request(get)).resolves.toMatchObject({ body: { user: null } });
    clientCertificate = client;
    await expect(transport.request(get)).resolves.toMatchObject({ body: { user: "tallyman" } });
  });
});
