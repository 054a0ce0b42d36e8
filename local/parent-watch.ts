/**
 * Loaded into each child before its own code (`node --import`): a child whose supervisor is gone, however it
 * went, stops as if it had been told to. It would else poll engines that are no longer there, for ever.
 */
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
// The channel is there for its end only and must not keep the child alive.
process.channel?.unref();
