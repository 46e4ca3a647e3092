/*
 * S: what a login shell prints, reads and does before our command runs, and after it. One account
 * per shell, each over both transports, all of them in one command.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import { test, type TestContext } from "node:test";
import { Account, accountMissing } from "../support/account.ts";
import { ConnectRig, connectMissing, type MachineRow } from "../support/connect.ts";
import { LONG_MS, run, until, type RunResult } from "../support/process.ts";
import type { Sshd, SshdOptions } from "../support/sshd.ts";
import { shepherdrBin } from "../support/world.ts";
import { Running } from "./running.ts";
import { EITHER, addKinds, assertAllConnected, rowsOf, soakOnly, type Kinds } from "./target.ts";

const skip = connectMissing() ?? accountMissing() ?? false;

/** Interactive and other shells read other files; these are read by `-c` under sshd. */
const RC: Record<string, string> = {
    bash: ".bashrc", zsh: ".zshenv", fish: ".config/fish/config.fish", tcsh: ".cshrc",
};

class Shells {
    readonly rig: ConnectRig;
    readonly accounts = new Map<string, Account>();
    private readonly t: TestContext;
    private readonly kinds = new Map<string, Kinds>();
    private readonly servers = new Map<string, Sshd>();
    private server: Sshd | undefined;

    constructor(t: TestContext) {
        this.t = t;
        this.rig = ConnectRig.create(t);
    }

    /** A machine over each transport, with an account of its own. */
    async add(
        name: string, shell: string, files: Record<string, string> = {}, sshd?: Partial<SshdOptions>, client?: string[], plan = EITHER,
    ): Promise<Account> {
        const account = await Account.create({ shell });
        this.t.after(() => account.remove());
        for (const [file, text] of Object.entries(files)) account.write(file, text);
        const own = sshd === undefined ? (this.server ??= await this.rig.sshd()) : await this.rig.sshd(sshd);
        this.accounts.set(name, account);
        this.kinds.set(name, addKinds(this.rig, { name, sshd: own, user: account.name, ...(client && { client }) }, plan));
        this.servers.set(name, own);
        return account;
    }

    /** A login shell of the test's, gone with it. */
    script(name: string, text: string): string {
        const file = path.join(this.rig.dir, name);
        fs.writeFileSync(file, text, { mode: 0o755 });
        return file;
    }

    kindsOf(name: string): Kinds {
        return this.kinds.get(name)!;
    }

    serverOf(name: string): Sshd {
        return this.servers.get(name)!;
    }

    get names(): string[] {
        return [...this.accounts.keys()];
    }
}

function assertError(row: MachineRow, code: string, cause: RegExp): void {
    const text = JSON.stringify(row);
    assert.ok(row.error !== undefined && row.error !== null, text);
    assert.equal(row.error.code, code, text);
    assert.match(row.error.cause, cause, text);
    assert.notEqual(row.error.step, "", text);
    assert.notEqual(row.error.next, "", text);
}

/** Both transports tell the same. */
function assertShell(rows: Map<string, MachineRow>, shells: Shells, name: string, code: string, cause: RegExp): void {
    for (const row of rowsOf(rows, shells.kindsOf(name))) assertError(row, code, cause);
}

/** Shells that are here, and a note about those that are not. */
function shellsHere(t: TestContext, shells: Shells): Record<string, string> {
    const all: Record<string, string> = {
        bash: "/bin/bash", dash: "/bin/dash", zsh: "/usr/bin/zsh", fish: "/usr/bin/fish", tcsh: "/usr/bin/tcsh",
    };
    /* busybox is what it is called by. */
    if (fs.existsSync("/bin/busybox")) {
        all["ash"] = path.join(shells.rig.dir, "ash");
        fs.symlinkSync("/bin/busybox", all["ash"]);
    }
    for (const [name, file] of Object.entries(all)) {
        if (fs.existsSync(file)) continue;
        t.diagnostic(`${file} is not installed`);
        delete all[name];
    }
    if (all["ash"] === undefined) t.diagnostic("/bin/busybox is not installed");
    return all;
}

test("S1: bash, dash, zsh, fish, tcsh and busybox ash", { skip }, async (t) => {
    const shells = new Shells(t);
    for (const [name, file] of Object.entries(shellsHere(t, shells))) await shells.add(name, file);
    assert.ok(shells.names.length > 1);
    const rows = await shells.rig.machines();
    for (const name of shells.names) assertAllConnected(rows, shells.kindsOf(name));
    /* A helper that is there is started, too. */
    const again = await shells.rig.machines();
    for (const name of shells.names) assertAllConnected(again, shells.kindsOf(name));
});

test("S2: a shell of another language is shell_unsupported, with its name", { skip }, async (t) => {
    const shells = new Shells(t);
    await shells.add("python", "/usr/bin/python3");
    const own = shells.script("plansh", "#!/bin/sh\necho \"plansh: 1: syntax error near 'sh'\" >&2\nexit 65\n");
    await shells.add("plansh", own);
    const device = shells.script("device", "#!/bin/sh\necho \"$2\" | cut -c1-60\necho '     ^'\necho \"% Invalid input detected at '^' marker.\"\n");
    await shells.add("device", device);
    const restricted = shells.script("rbash", "#!/bin/sh\nexec /bin/bash -r \"$@\"\n");
    await shells.add("rbash", restricted);
    const rows = await shells.rig.machines();
    assertShell(rows, shells, "python", "shell_unsupported", /the login shell Python does not understand sh: .*SyntaxError/);
    assertShell(rows, shells, "plansh", "shell_unsupported", /the login shell plansh /);
    assertShell(rows, shells, "device", "shell_unsupported", /network device/);
    assertShell(rows, shells, "rbash", "shell_unsupported", /exec: restricted/);
    for (const name of shells.names)
        for (const row of rowsOf(rows, shells.kindsOf(name))) assert.ok(row.error!.cause.length < 400, row.error!.cause);
});

test("S3: one line, 3 MiB of art, NULs, and a marker that is not ours", { skip }, async (t) => {
    const shells = new Shells(t);
    const line = "\x1b[38;5;196m\u2588\x1b[0m\x1b[2J\u0000";
    const art = line.repeat(Math.ceil((3 * 1024 * 1024) / Buffer.byteLength(line)));
    const fake = `\n@@SHP1 ${"0".repeat(32)} READY fake\n@@SHP1 ${"f".repeat(32)} FAIL arch none\n\n@@SHP1 `;
    const here = shellsHere(t, shells);
    for (const [name, file] of Object.entries(RC)) {
        if (here[name] === undefined) continue;
        await shells.add(`${name}-line`, here[name], { [file]: "echo Welcome to the machine\n" });
        await shells.add(`${name}-art`, here[name], { art: art + fake, [file]: "cat ~/art\n" });
    }
    const rows = await shells.rig.machines();
    for (const name of shells.names) assertAllConnected(rows, shells.kindsOf(name));
});

test("S3: noise without an end is named, with the last of it", { skip }, async (t) => {
    const shells = new Shells(t);
    await shells.add("endless", "/bin/bash", { ".bashrc": "yes welcome to the machine\n" });
    assertShell(await shells.rig.machines(), shells, "endless", "shell_noise", /welcome to the machine/);
});

test("S4: a start-up file that prints later, from the background", { skip }, async (t) => {
    const shells = new Shells(t);
    /* As soon as the helper runs, and not before. */
    const late = "(trap '' HUP; until pgrep -u $UID -x -f '.*/helper-linux.*serve.*' >/dev/null; do sleep 0.05; done; sleep 0.5; while sleep 0.1; do echo You have new mail; done) &\n";
    const account = await shells.add("late", "/bin/bash", { ".bashrc": late });
    const names = ["late-openssh"];
    const running = await Running.start(t, shells.rig);
    let row: MachineRow | undefined;
    const logins = (): number => fs.readFileSync(path.join(shells.rig.dir, "sshd0", "sshd.log"), "utf8").split("Accepted publickey").length - 1;
    await until(
        async () => {
            row = (await running.rows()).get(names[0]!);
            return row?.error?.code === "auth_failed";
        },
        { what: "the end of the link", deadlineMs: LONG_MS, dump: () => JSON.stringify(row) },
    );
    assertError(row!, "auth_failed", /start-up file.*left something running that prints; what came is text: You have new mail/);
    /* A short success is followed by a wait that grows: of two links, the third login from now on
       is the second of one of them, half a second of link and half of 2 s after the first. */
    const began = Date.now();
    const first = logins();
    await until(() => logins() >= first + 3, { what: "more logins", deadlineMs: LONG_MS });
    assert.ok(Date.now() - began >= 1500, `${Date.now() - began} ms`);
    /* Silent again, it connects by itself. */
    account.write(".bashrc", "");
    await until(
        async () => (row = (await running.rows({ reconnect: shells.rig.id(names[0]!) })).get(names[0]!))?.status === "connected",
        { what: "a link", deadlineMs: LONG_MS, dump: () => JSON.stringify(row) },
    );
});

test("S5: a start-up file that reads standard input", { skip: skip || soakOnly }, async (t) => {
    const shells = new Shells(t);
    await shells.add("read", "/bin/bash", { ".bashrc": "echo -n 'Press enter: '; read answer\n" });
    await shells.add("eat", "/bin/bash", { ".bashrc": "cat >/dev/null\n" });
    await shells.add("free", "/bin/bash");
    const rows = await shells.rig.machines();
    assertShell(rows, shells, "read", "shell_slow", /reads standard input.*Press enter/);
    assertShell(rows, shells, "eat", "shell_slow", /reads standard input/);
    assertAllConnected(rows, shells.kindsOf("free"));
});

test("S6: a slow start-up file connects", { skip }, async (t) => {
    const shells = new Shells(t);
    await shells.add("slow", "/bin/bash", { ".bashrc": "echo loading; sleep 3\n" });
    assertAllConnected(await shells.rig.machines(), shells.kindsOf("slow"));
});

test("S6: 20 s connect, 40 s are shell_slow", { skip: skip || soakOnly }, async (t) => {
    const shells = new Shells(t);
    await shells.add("s20", "/bin/bash", { ".bashrc": "echo loading; sleep 20\n" });
    await shells.add("s40", "/bin/bash", { ".bashrc": "echo loading; sleep 40\n" });
    const rows = await shells.rig.machines();
    assertAllConnected(rows, shells.kindsOf("s20"));
    assertShell(rows, shells, "s40", "shell_slow", /no answer within 30 s.*loading/);
});

test("S7: a start-up file that exits", { skip }, async (t) => {
    const shells = new Shells(t);
    const here = shellsHere(t, shells);
    /* In fish and tcsh `exit` ends the file and no more. */
    const other = "echo not today\nexec false\n";
    for (const [name, file] of Object.entries(RC))
        if (here[name] !== undefined)
            await shells.add(name, here[name], { [file]: ["fish", "tcsh"].includes(name) ? other : "echo not today\nexit 3\n" });
    await shells.add("mute", "/bin/bash", { ".bashrc": "exit 0\n" });
    /* What a start-up file says about itself is no complaint about our command. */
    await shells.add("broken", "/bin/bash", { ".bashrc": "nosuchtool\nexit 1\n" });
    const rows = await shells.rig.machines();
    for (const name of shells.names)
        assertShell(rows, shells, name, "shell_refused", /^the login shell ended before our command ran/);
    for (const name of Object.keys(RC))
        if (here[name] !== undefined) assertShell(rows, shells, name, "shell_refused", /not today/);
    assertShell(rows, shells, "broken", "shell_refused", /nosuchtool/);
});

test("S8: an account that may not log in", { skip }, async (t) => {
    const shells = new Shells(t);
    await shells.add("nologin", "/usr/sbin/nologin");
    await shells.add("false", "/bin/false");
    const rows = await shells.rig.machines();
    assertShell(rows, shells, "nologin", "shell_refused", /This account is currently not available/);
    assertShell(rows, shells, "false", "shell_refused", /ended before our command ran/);
});

test("S9: a banner before the login is no noise", { skip }, async (t) => {
    const shells = new Shells(t);
    const banner = path.join(shells.rig.dir, "banner");
    fs.writeFileSync(banner, `${"\x1b[31mAuthorized use only.\x1b[0m @@SHP1 READY\n".repeat(200)}`);
    await shells.add("banner", "/bin/bash", {}, { extraConfig: [`Banner ${banner}`] });
    /* What a shell said stands before it. */
    await shells.add("refused", "/usr/sbin/nologin", {}, { extraConfig: [`Banner ${banner}`] });
    const rows = await shells.rig.machines();
    assertAllConnected(rows, shells.kindsOf("banner"));
    assertShell(rows, shells, "refused", "shell_refused", /^the login shell ended before our command ran; it printed: This account is currently not available/);
    const { stdout } = await shells.rig.shepherdr(["doctor", "--json", shells.rig.id("banner-openssh")]);
    const [patient] = JSON.parse(stdout) as Array<{ layers: Array<{ layer: string; text?: string }> }>;
    assert.equal(patient?.layers.find((one) => one.layer === "shell")?.text, "silent", stdout);
});

test("S10: a forced command that is something else", { skip }, async (t) => {
    const shells = new Shells(t);
    const forced = (command: string): Partial<SshdOptions> => ({ extraConfig: [`ForceCommand ${command}`] });
    await shells.add("text", "/bin/bash", {}, forced("echo Only backups may run here"));
    await shells.add("quiet", "/bin/bash", {}, forced("/bin/true"));
    /* The command is repeated, but not as a complaint of an interpreter. */
    await shells.add("echo", "/bin/bash", {}, forced('echo "not allowed: $SSH_ORIGINAL_COMMAND"'));
    const rows = await shells.rig.machines();
    assertShell(rows, shells, "text", "shell_refused", /Only backups may run here/);
    assertShell(rows, shells, "quiet", "shell_refused", /ended before our command ran/);
    assertShell(rows, shells, "echo", "shell_refused", /not allowed/);
    for (const row of rowsOf(rows, shells.kindsOf("text"))) assert.match(row.error!.next, /forced command/);
});

test("S10: a key whose forced command is the helper", { skip }, async (t) => {
    const shells = new Shells(t);
    const helper = path.join(path.dirname(shepherdrBin), "shepherdr-helper");
    const account = await shells.add("locked", "/bin/bash", { ".bashrc": "echo Welcome\n" }, {});
    const sshd = shells.serverOf("locked");
    fs.mkdirSync(path.join(account.home, "bin"));
    fs.copyFileSync(helper, path.join(account.home, "bin", "shepherdr-helper"));
    const key = fs.readFileSync(`${sshd.userKey}.pub`, "utf8");
    const line = (command: string): void => fs.writeFileSync(path.join(sshd.dir, "authorized_keys"), `restrict,command="${command}" ${key}`);
    line("$HOME/bin/shepherdr-helper serve --ssh");
    assertAllConnected(await shells.rig.machines(), shells.kindsOf("locked"));
    /* Nothing is installed, and nothing else runs. */
    assert.equal(fs.existsSync(path.join(account.home, ".pi", "agent", "shepherdr", "bin")), false);
    const ssh = (...command: string[]): Promise<RunResult> =>
        run(path.join(shells.rig.client.bin, "ssh"), ["-oBatchMode=yes", "locked-openssh", ...command], { env: shells.rig.env() });
    const marker = "0".repeat(32);
    for (const command of [
        [], ["id"], ["exec sh -c 'k="], [`exec sh -c 'k=${marker}`], [`exec sh -c 'k=${marker}0;id'`],
        [`exec sh -c 'k=${"G".repeat(32)};'`], [`id; exec sh -c 'k=${marker};'`],
    ]) {
        const result = await ssh(...command);
        assert.notEqual(result.code, 0);
        assert.doesNotMatch(result.stdout, /uid=|READY/, command.join(" "));
        assert.match(result.stderr, /this key serves|not 32 hex digits/, command.join(" "));
    }
    /* Another version: named as such, with what to do. */
    const other = shells.script("old-helper", `#!/bin/sh\nk=$(printf %s "$SSH_ORIGINAL_COMMAND" | cut -c15-46)\nprintf '\\n@@SHP1 %s READY 0.0.1-old forced\\n' "$k"\nexec cat >/dev/null\n`);
    line(other);
    const rows = await shells.rig.machines();
    assertShell(rows, shells, "locked", "build_mismatch", /the key's forced command names is build 0.0.1-old, ours is/);
    for (const row of rowsOf(rows, shells.kindsOf("locked"))) assert.match(row.error!.next, /put the file of this version there/);
});

test("S11: a client configuration that interferes", { skip }, async (t) => {
    const shells = new Shells(t);
    const account = await shells.add("hostile", "/bin/bash", { ".bashrc": "env | grep ^HERDR_ | sort >~/sent-$$\n" }, {
        extraConfig: ["AcceptEnv HERDR_*", "AcceptEnv LC_*"],
    }, [
        "RemoteCommand echo remote command",
        "RequestTTY force",
        "PermitLocalCommand yes",
        "LocalCommand echo local command",
        "LocalForward 127.0.0.1:1 127.0.0.1:2",
        "RemoteForward 127.0.0.1:0 127.0.0.1:2",
        "DynamicForward 127.0.0.1:1",
        "ExitOnForwardFailure yes",
        "StdinNull yes",
        "ForkAfterAuthentication yes",
        "EscapeChar ~",
        "LogLevel QUIET",
        "ForwardAgent yes",
        "ForwardX11 yes",
        "SendEnv HERDR_*",
        `SetEnv HERDR_SOCKET_PATH=${shells.rig.dir}/herdr.sock HERDR_ENV=1`,
    ], { openssh: "openssh", auto: "openssh", libssh: "libssh" });
    /* Variables that the client was told to send lead no helper elsewhere. */
    let asked = 0;
    const server = net.createServer((connection) => {
        asked++;
        connection.destroy();
    });
    await new Promise<void>((resolve) => server.listen(path.join(shells.rig.dir, "herdr.sock"), resolve));
    t.after(() => new Promise((resolve) => server.close(resolve)));
    fs.chmodSync(path.join(shells.rig.dir, "herdr.sock"), 0o777);
    shells.rig.setEnv({ HERDR_PANE_ID: "w1-1" });
    const rows = await shells.rig.machines();
    for (const row of rowsOf(rows, shells.kindsOf("hostile"))) {
        const text = JSON.stringify(row);
        assert.equal(row.status, "connected", text);
        assert.match(String(row["snapshotError"]), new RegExp(`herdr_not_running: ${account.home}/`), text);
    }
    const sent = fs.readdirSync(account.home).filter((file) => file.startsWith("sent-"))
        .map((file) => fs.readFileSync(path.join(account.home, file), "utf8"));
    assert.ok(sent.includes(`HERDR_ENV=1\nHERDR_SOCKET_PATH=${shells.rig.dir}/herdr.sock\n`), sent.join());
    for (const text of sent) assert.doesNotMatch(text, /HERDR_PANE_ID/);
    assert.equal(asked, 0);
});
