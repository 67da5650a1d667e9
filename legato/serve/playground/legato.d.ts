// Types of legato.js.

export interface MessageItem {
  role: "user" | "assistant" | "system" | "developer";
  content: string | Array<Record<string, unknown>>;
  type?: "message";
}

/** A call of a function, in a response's output and in a later request's input. */
export interface FunctionCall {
  type: "function_call";
  call_id: string;
  name: string;
  /** A JSON object, as text. */
  arguments: string;
  id?: string;
  status?: "in_progress" | "completed" | "incomplete";
}

export interface FunctionCallOutput {
  type: "function_call_output";
  call_id: string;
  output: string;
}

export type InputItem = MessageItem | FunctionCall | FunctionCallOutput;

export interface FunctionTool {
  type: "function";
  name: string;
  description?: string;
  /** JSON Schema of an object. */
  parameters?: Record<string, unknown> | null;
  /** Calls are held to the schema unless this is false. */
  strict?: boolean | null;
}

/** The body of `POST /v1/responses`, and Legato's own fields. */
export interface ResponseRequest {
  input?: string | InputItem[];
  model?: string;
  instructions?: string;
  tools?: FunctionTool[];
  tool_choice?: "auto" | "none" | "required" | { type: "function"; name: string };
  parallel_tool_calls?: boolean;
  previous_response_id?: string;
  store?: boolean;
  generate?: boolean;
  max_output_tokens?: number;
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  repetition_penalty?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  seed?: number;
  stop?: string | string[];
  priority?: number;
  ttft_deadline_s?: number;
  total_deadline_s?: number;
  metadata?: Record<string, string>;
  user?: string;
  [field: string]: unknown;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  input_tokens_details?: { cached_tokens: number };
}

export interface ResponseObject {
  id: string | null;
  status: "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";
  output: Array<Record<string, any>>;
  model?: string;
  usage?: Usage | null;
  error?: { code: string; message: string } | null;
  incomplete_details?: { reason: string } | null;
  [field: string]: unknown;
}

/** An event of the response, as the specification has it. */
export interface ResponseEvent {
  type: string;
  sequence_number: number;
  stream_id?: string;
  response?: ResponseObject;
  delta?: string;
  [field: string]: unknown;
}

export interface ClientOptions {
  /** `ws://…/v1/responses`. A page of the server itself may leave it out. */
  url?: string | URL;
  apiKey?: string;
  /** Another WebSocket than the global one. */
  WebSocket?: new (url: string, protocols: string[]) => any;
  /** How long to try to connect again before answers fail; 60,000. */
  patienceMs?: number;
  /** After so long without a word the server is asked whether it is there; 20,000. */
  silenceMs?: number;
}

export interface AnswerOptions {
  /** Requests that name the same lane run one after another. */
  lane?: string;
  /** Aborting cancels the response, and the answer fails with the signal's reason. */
  signal?: AbortSignal;
  /** At most about so many unread tokens; 0, the default, is without bound. */
  credit?: number;
}

export declare class LegatoClient extends EventTarget {
  constructor(options?: ClientOptions);
  /** Fires the event `state` when it changes. */
  readonly state: "idle" | "connecting" | "open" | "waiting" | "closed";
  /** Ask for a response; connects if need be. `resumable` is true unless said. */
  respond(
    request: ResponseRequest,
    options?: AnswerOptions & { resumable?: boolean },
  ): Answer;
  /** Follow a resumable response that another client, or page, has begun. */
  resume(
    responseId: string,
    options?: AnswerOptions & { startingAfter?: number },
  ): Answer;
  /** Leave; answers under way fail with `ClientClosed`. */
  close(): void;
}

/** One response. Iterate it once; leaving the loop early cancels it. */
export declare class Answer implements AsyncIterable<ResponseEvent> {
  private constructor();
  readonly id: string | null;
  readonly sequence: number;
  readonly lane: string | undefined;
  readonly ended: boolean;
  [Symbol.asyncIterator](): AsyncGenerator<ResponseEvent, void, void>;
  text(): AsyncGenerator<string, void, void>;
  /** The response object at its end; throws what the iteration would. */
  response(): Promise<ResponseObject>;
  cancel(): void;
  stop(): void;
  update(fields: { max_output_tokens?: number; priority?: number }): void;
}

export declare class LegatoError extends Error {
  readonly code: string;
  readonly status: number;
  readonly param: string | null;
}
export declare class RequestRefused extends LegatoError {}
export declare class Overloaded extends RequestRefused {
  readonly retryAfterS: number | null;
}
export declare class ResponseFailed extends LegatoError {
  readonly response: ResponseObject | null;
}
export declare class ResponseLost extends LegatoError {}
export declare class ConnectionLost extends LegatoError {}
export declare class ClientClosed extends LegatoError {}
