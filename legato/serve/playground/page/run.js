// An answer on its way into its message: asked, followed, kept every now and then, and
// taken up again after a reload. Whether anybody looks at it makes no difference.

import { RequestRefused, ResponseFailed, ResponseLost } from "../legato.js";
import { shortRequest, take, wholeRequest } from "./conversation.js";

const KEEP_MS = 400;
const FORGOTTEN = "previous_response_not_found";

export class Run {
  #client;
  #history;
  #answer = null;
  #keepTimer = null;
  #forgotten = false;

  /**
   * @param {{client: object, history: object, conversation: object, onChange: Function}}
   *   parts `onChange` is called with this run after every change.
   */
  constructor({ client, history, conversation, onChange }) {
    this.#client = client;
    this.#history = history;
    this.conversation = conversation;
    this.message = conversation.messages.at(-1);
    this.onChange = onChange;
  }

  /** Ask, and follow the answer to its end. */
  async ask(settings) {
    this.message.askedAt = Date.now();
    this.message.settings = settings;
    this.keep();
    const short = shortRequest(this.conversation);
    try {
      await this.#follow(this.#respond(short ?? wholeRequest(this.conversation)));
    } catch (error) {
      if (!short || error.code !== FORGOTTEN) return this.#fail(error);
      // The server has let go of what was said before; this page has not.
      await this.#attempt(() => this.#respond(wholeRequest(this.conversation)));
    }
  }

  /** Follow an answer that this page, before a reload, began to follow. */
  async resume() {
    const { responseId, sequence, lane, settings = {} } = this.message;
    // Nothing was seen of it yet: nothing is lost by asking again.
    if (!responseId) return this.ask(settings);
    const options = { startingAfter: sequence, lane };
    await this.#attempt(() => this.#client.resume(responseId, options));
  }

  /** End the answer here; its text stays. */
  stop() {
    this.message.stopping = true;
    if (this.#answer?.id) this.#answer.stop();
    else this.#answer?.cancel();
  }

  /** End the answer, whose conversation is to be forgotten. */
  forget() {
    this.#forgotten = true;
    this.stop();
  }

  /** Write down where it stands; `kept` says whether there was room. */
  keep() {
    clearTimeout(this.#keepTimer);
    this.#keepTimer = null;
    this.kept = this.#forgotten || this.#history.write(this.conversation);
  }

  #respond(request) {
    return this.#client.respond({ ...request, ...this.message.settings });
  }

  async #attempt(begin) {
    try {
      await this.#follow(begin());
    } catch (error) {
      this.#fail(error);
    }
  }

  async #follow(answer) {
    this.#answer = answer;
    for await (const event of answer) {
      this.message.lane = answer.lane;
      take(this.message, event);
      // Its id is what a reload needs: kept at once.
      if (event.type === "response.created") this.keep();
      this.#keepTimer ??= setTimeout(() => this.keep(), KEEP_MS);
      this.onChange(this);
    }
    if (!answer.id) this.message.state = "stopped";
    this.#end();
  }

  #fail(error) {
    this.message.state = "failed";
    this.message.error = explain(error);
    this.#end();
  }

  #end() {
    for (const name of ["settings", "stopping", "lane", "pieces"]) delete this.message[name];
    this.keep();
    this.onChange(this);
  }
}

function explain(error) {
  if (error instanceof ResponseLost) return "The server no longer has the rest of this answer.";
  if (error instanceof ResponseFailed) return `The answer could not be ended: ${error.message}`;
  if (error instanceof RequestRefused) return `The server refused: ${error.message}`;
  return error.message;
}
