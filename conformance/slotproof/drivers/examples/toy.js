// The toy of toy.py in another language and without events: the minimum for a driver.
// Needs Node.js and no package. With --bug it has a bug that toy.py lacks. Find it with
// slotproof run --engine "cmd:node toy.js --bug"
"use strict";

const BUG = process.argv.includes("--bug");
const range = (n) => Array.from({ length: n }, (_, i) => i);

class Engine {
  constructor(config, seed) {
    Object.assign(this, { config, seed, iter: 0, inbox: [], queue: [], messages: [] });
    this.free = range(config.total_tokens);
    this.rows = range(config.rows);
    this.sessions = new Map(); // at[i] is the KV index of position i; the first session in the queue runs
  }

  tell(type, fields) {
    this.messages.push({ type, ...fields });
  }

  open({ session }) {
    if (this.sessions.has(session))
      return this.tell("refused", { session, message: "it is open" });
    const fresh = { turn: null, running: false, slot: false, row: -1, at: [], history: [] };
    this.sessions.set(session, fresh);
    this.tell("opened", { session });
  }

  submit({ session, rid, tokens, max_new, stop }) {
    const home = this.sessions.get(session);
    const prompt = [...(home ? home.history : []), ...tokens];
    const most = Math.min(this.config.context_len, this.config.total_tokens);
    const busy = home && home.turn && !BUG; // with the bug, a second turn displaces the first
    if (!home || busy || !prompt.length || prompt.length + max_new > most)
      return this.tell("finish", { rid, reason: "abort", tokens: [], message: "not possible" });
    home.turn = { rid, prompt, max_new, stop, output: [] };
    this.queue.push(session);
  }

  abort({ rid }) {
    for (const [sid, home] of this.sessions)
      if (home.turn && home.turn.rid === rid) {
        if (home.running) this.giveBack(home);
        this.end(sid, home, "abort");
      }
  }

  close({ session }) {
    const home = this.sessions.get(session);
    if (!home) return this.tell("refused", { session, message: "it is not open" });
    if (home.turn) this.abort(home.turn);
    this.giveBack(home);
    this.sessions.delete(session);
    this.tell("closed", { session });
  }

  giveBack(home) {
    this.free.push(...home.at);
    if (home.row >= 0) this.rows.push(home.row);
    Object.assign(home, { slot: false, row: -1, at: [] });
  }

  step() {
    const inbox = this.inbox;
    Object.assign(this, { inbox: [], iter: this.iter + 1 });
    for (const command of inbox) this[command.do](command);
    if (this.queue.length) this.forward(this.queue[0], this.sessions.get(this.queue[0]));
    return this.snapshot(inbox.length);
  }

  tick() {
    return this.snapshot(0);
  }

  admit(home, turn) {
    const need = turn.prompt.length + turn.max_new - home.at.length;
    for (const idle of this.sessions.values()) {
      const short = this.free.length < need || (!home.slot && !this.rows.length);
      if (idle.slot && idle !== home && short) this.giveBack(idle);
    }
    if (home.slot) { // the turn computes its last known token again for the logits
      this.free.push(...home.at.splice(Math.min(home.at.length, turn.prompt.length - 1)));
    } else home.row = this.rows.pop();
    home.running = true;
  }

  forward(sid, home) { // write missing KV, sample a token
    const turn = home.turn;
    if (!home.running) this.admit(home, turn);
    const known = [...turn.prompt, ...turn.output];
    while (home.at.length < known.length) home.at.push(this.free.pop());
    const sum = known.reduce((all, token) => (all * 31 + token) % 65521, this.seed % 65521);
    if (turn.max_new > 0) turn.output.push(1 + (sum % 250));
    const stopped = turn.stop.includes(turn.output.at(-1));
    if (!stopped && turn.output.length < turn.max_new) return;
    Object.assign(home, { slot: true, history: [...turn.prompt, ...turn.output] });
    this.end(sid, home, stopped ? "stop" : "length");
  }

  end(sid, home, reason) {
    this.tell("finish", { rid: home.turn.rid, reason, tokens: home.turn.output });
    this.queue = this.queue.filter((each) => each !== sid);
    Object.assign(home, { turn: null, running: false });
  }

  snapshot(consumed) {
    const { iter, messages, free } = this;
    const total = this.config.total_tokens;
    const pool = { total, available: free.length, evictable: 0, protected: 0, free };
    const rows = { total: this.config.rows, free: this.rows, used: {} };
    const [sessions, slots, requests] = [{}, {}, {}];
    const none = { row: -1, C: 0, A: 0, Q: 0, E: 0, locks: 0 };
    for (const [sid, home] of this.sessions) {
      const { turn, running, slot, row, at, history } = home;
      const lengths = { ...none, row, C: at.length, A: at.length };
      const inflight = turn && turn.rid;
      const past = { history: history.length, hash: null };
      sessions[sid] = { open: true, closing: false, inflight, ...past };
      if (slot || running) rows.used[row] = { full: at };
      if (slot) slots[sid] = { ...lengths, lent: null };
      if (turn)
        requests[turn.rid] = {
          session: sid, kind: "turn", phase: running ? "running" : "waiting",
          in_last: running, in_running: running, loan: running && slot ? sid : null,
          ...(running ? lengths : none),
          prompt: turn.prompt.length, hash: null, output: turn.output.length,
        };
    }
    this.messages = [];
    const checker = { ran: false, level: 0, pools: {}, verdict: "off", message: "" };
    const seen = { pools: { full: pool }, tree: {}, rows, sessions, slots, requests };
    return structuredClone({ iter, consumed, messages, ...seen, checker });
  }
}

// The driver: one message and one answer per line.

const isText = (value) => typeof value === "string";
const isCount = (value) => Number.isInteger(value) && value >= 0;
const FIELDS = {
  open: { session: isText }, close: { session: isText }, abort: { rid: isText },
  submit: { session: (value) => value === null || isText(value), rid: isText,
            tokens: Array.isArray, max_new: isCount, stop: Array.isArray },
  step: { n: isCount }, tick: { seconds: isCount },
};
const LIMITS = { page_size: [1], swa_tokens: [0], window: [0], chunk: [0], draft: [0] };
const HELLO = {
  protocol: 2,
  engine: { name: BUG ? "toy.js with a bug" : "toy.js", version: "1" },
  capabilities: {
    commands: Object.keys(FIELDS), pools: ["full"], page_sizes: [1], config: LIMITS,
    not_observed: { "requests without a session": "the toy refuses them",
                    "timeouts": "the toy closes no session by itself",
                    "tokens of a history": "the toy has no CRC-32, hash is null",
                    "the engine's own check": "the toy has none" },
  },
};

class Usage extends Error {}
const must = (condition, text) => {
  if (!condition) throw new Usage(text);
};
let [engine, over] = [null, false];

function serve({ op, protocol, config, seed, command }) {
  if (op === "hello") {
    must(protocol === 2, "this driver speaks protocol 2");
    return HELLO;
  } else if (op === "reset") {
    for (const [name, values] of Object.entries(LIMITS))
      must(values.includes(config?.[name]), `${name} can only be ${values}`);
    for (const name of ["total_tokens", "rows", "context_len"])
      must(isCount(config[name]) && config[name] > 0, `${name} must be at least 1`);
    engine = new Engine(config, seed);
  } else if (op === "do") {
    must(engine, "reset comes first");
    const fields = Object.hasOwn(FIELDS, command?.do ?? "") && FIELDS[command.do];
    must(fields, `there is no command ${JSON.stringify(command?.do)}`);
    for (const [name, fits] of Object.entries(fields))
      must(fits(command[name]), `${command.do}: ${name} can't be ${command[name]}`);
    if (command.do === "step") return { snapshots: range(command.n).map(() => engine.step()) };
    if (command.do === "tick") return { snapshots: [engine.tick()] };
    engine.inbox.push(command);
    return { snapshots: [] };
  } else {
    must(op === "bye", `there is no op ${JSON.stringify(op)}`);
    over = true;
  }
  return {};
}

function answer(line) {
  let id = null;
  try {
    const message = JSON.parse(line);
    must(message && typeof message === "object", "a message is a JSON object");
    id = message.id ?? null;
    return { id, ok: true, result: serve(message) };
  } catch (error) {
    if (error instanceof Usage || error instanceof SyntaxError)
      return { id, ok: false, kind: "usage", error: error.message };
    return { id, ok: false, kind: "crash", error: String(error), trace: error.stack };
  }
}

const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  process.stdout.write(JSON.stringify(answer(line)) + "\n");
  if (over) process.stdin.destroy();
});
