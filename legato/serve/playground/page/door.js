// Whether one may come in, and who is inside: the model's name, a key if one is needed,
// or why not.

const KEY = "legato.key";
const PATIENCE_MS = 1000;

export class Door {
  #storage;
  #base = new URL("..", import.meta.url);

  /** @param {Storage} storage Holds the key: sessionStorage. */
  constructor(storage) {
    this.#storage = storage;
  }

  get key() {
    return this.#storage.getItem(KEY) ?? "";
  }

  set key(key) {
    this.#storage.setItem(KEY, key);
  }

  /**
   * Knock.
   *
   * @returns {Promise<{is: string, model?: string, why?: string}>} is: `open`,
   *   `locked` (a key is needed), `shut` (this page may not use the server), `loading`,
   *   `broken` or `away`.
   */
  async knock() {
    try {
      const health = await (await fetch(new URL("health", this.#base))).json();
      if (health.status === "starting") return { is: "loading" };
      if (health.status === "failed") return { is: "broken", why: health.cause };
      // Unlike GET, this tells the server which page asks, as a socket does.
      const mayAsk = await fetch(new URL("v1/models", this.#base), { method: "OPTIONS" });
      if (mayAsk.status === 403) return { is: "shut", why: await reasonOf(mayAsk) };
      const headers = this.key ? { authorization: `Bearer ${this.key}` } : {};
      const models = await fetch(new URL("v1/models", this.#base), { headers });
      if (models.status === 401) return { is: "locked" };
      if (!models.ok) return { is: "broken", why: await reasonOf(models) };
      return { is: "open", model: (await models.json()).data[0].id };
    } catch {
      return { is: "away" };
    }
  }

  /** Knock until the model is loaded and the server there; tells what it waits for. */
  async enter(onWait) {
    for (;;) {
      const answer = await this.knock();
      if (answer.is !== "loading" && answer.is !== "away") return answer;
      onWait(answer);
      await new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
    }
  }
}

async function reasonOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered ${response.status}`;
  }
}
