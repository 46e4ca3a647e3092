import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { processesOf, removeRoot, run, start, tmpRoot, until } from "./process.ts";
import { SshClient, Sshd, sshdMissing } from "./sshd.ts";

const skip = sshdMissing() ?? false;

test("a session has the machine's home and path, and the alias reaches it", { skip }, async (t) => {
    const root = tmpRoot("ssh");
    const home = path.join(root, "home");
    fs.mkdirSync(home);
    const sshd = await Sshd.start({ dir: root, home, path: `${root}/bin:/usr/bin:/bin`, setEnv: { MARK: "a b" } });
    t.after(async () => {
        await sshd.stop();
        removeRoot(root);
    });
    const client = new SshClient(root);
    client.addHost({ alias: "box", sshd });
    const env = { PATH: `${client.bin}:/usr/bin:/bin` };
    const result = await run("ssh", ["-T", "-o", "BatchMode=yes", "box", 'echo "$HOME|$PATH|$MARK"'], { env });
    assert.equal(result.stderr, "");
    assert.equal(result.stdout, `${home}|${root}/bin:/usr/bin:/bin|a b\n`);
    assert.equal(sshd.logins, 1);
    assert.equal(client.calls.length, 1);
    const resolved = await run("ssh", ["-G", "box"], { env });
    assert.match(resolved.stdout, new RegExp(`^port ${sshd.port}$`, "m"));

    fs.writeFileSync(client.knownHostsFile, "");
    const refused = await run("ssh", ["-T", "-o", "BatchMode=yes", "box", "true"], { env });
    assert.equal(refused.code, 255);
    assert.match(refused.stderr, /Host key verification failed/);
});

test("cut ends the connection, stop ends what runs in it, listen brings it back", { skip }, async (t) => {
    const root = tmpRoot("ssh");
    const sshd = await Sshd.start({ dir: root, home: root, path: "/usr/bin:/bin" });
    t.after(async () => {
        await sshd.stop();
        removeRoot(root);
    });
    const client = new SshClient(root);
    client.addHost({ alias: "box", sshd });
    const env = { PATH: `${client.bin}:/usr/bin:/bin` };
    const open = (): ReturnType<typeof start> => start("ssh", ["-T", "box", "echo up; trap '' HUP TERM; sleep 300; true"], { env });

    const first = open();
    await until(() => first.stdout.includes("up"), { what: "the first session", dump: () => first.stderr + sshd.log });
    sshd.cut();
    assert.equal((await first.exited).code, 255);

    const second = open();
    await until(() => second.stdout.includes("up"), { what: "a session after the cut", dump: () => second.stderr + sshd.log });
    await sshd.stopListening();
    const third = await run("ssh", ["-T", "box", "true"], { env });
    assert.match(third.stderr, /Connection refused/);
    assert.equal(second.ended, false);
    await sshd.listen();
    assert.equal((await run("ssh", ["-T", "box", "true"], { env })).code, 0);
    await sshd.stop();
    await second.exited;
    assert.deepEqual(processesOf(root), []);
});
