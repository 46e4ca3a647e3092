/*
 * S: what a login shell prints, reads and does before our command runs.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Account, accountMissing } from "../support/account.ts";
import { ConnectRig, connectMissing } from "../support/connect.ts";

const skip = connectMissing() ?? accountMissing() ?? false;

test("S1: a bash account connects", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const account = await Account.create({ shell: "/bin/bash" });
    t.after(() => account.remove());
    rig.add({ name: "bash", sshd: await rig.sshd(), user: account.name });
    const row = await rig.machine("bash");
    assert.equal(row.status, "connected", JSON.stringify(row));
});
