// The playground in a real browser, on one stage for all tests.

import { after, before, describe } from "node:test";

import { access } from "./access.mjs";
import { connection } from "./connection.mjs";
import { raise, strike } from "./stage.mjs";
import { talking } from "./talking.mjs";

describe("the playground", { concurrency: 2 }, () => {
  before(raise);
  after(strike);
  talking();
  connection();
  access();
});
