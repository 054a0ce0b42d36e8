import { createTransport } from "./https-transport.ts";
import type { ClusterAccess, KubernetesTransport } from "./transport.ts";

/**
 * The way to an API server whose address and credentials have to be loaded first. They are loaded at the first call,
 * once for all who wait; again after a load that failed, and after the API server refused them with 401.
 */
export function createDeferredTransport(load: () => Promise<ClusterAccess>): KubernetesTransport {
  let opened: Promise<KubernetesTransport> | undefined;

  function open(): Promise<KubernetesTransport> {
    if (opened !== undefined) return opened;
    const opening = load().then((access) => createTransport(access));
    opened = opening;
    opening.catch(() => forget(opening));
    return opening;
  }

  function forget(stale: Promise<KubernetesTransport>): void {
    if (opened === stale) opened = undefined;
    stale.then(
      (transport) => transport.close(),
      () => {},
    );
  }

  async function authorised<T extends { readonly status: number }>(
    call: (transport: KubernetesTransport) => Promise<T>,
    discard: (answer: T) => void,
  ): Promise<T> {
    const first = open();
    const answer = await call(await first);
    if (answer.status !== 401) return answer;
    discard(answer);
    forget(first);
    return call(await open());
  }

  return {
    request: (request) =>
      authorised(
        (transport) => transport.request(request),
        () => {},
      ),
    stream: (request) =>
      authorised(
        (transport) => transport.stream(request),
        (answer) => void answer.body.destroy(),
      ),
    close() {
      opened?.then(
        (transport) => transport.close(),
        () => {},
      );
    },
  };
}
