#!/usr/bin/env python3
"""A seller of machines that is not written in Go.

It sells processes of the machine it runs on, each a command of yours that is given
the user data as a file, and keeps the contract of docs/sellers.md: the same token
is the same machine for ever, a list is complete or says that it is not, and a
machine is ours until the list says that it is gone. What it knows lies in one
SQLite file, so that it may be killed and started again at any moment.

    pip install nats-py
    python3 seller.py --url nats://127.0.0.1:4222 --creds seller.creds --name shed \\
        --offers offers.json --state shed.db -- spotferry agent --dir {dir} --user-data {user_data}

offers.json is a list of offers, as docs/sellers.md has them, each with one field
more: "stock", how many machines of it there are.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from pathlib import Path

import nats

TOKEN = re.compile(r"^[A-Za-z0-9_-]{1,128}$")
SCHEMA = """
create table if not exists machine (
    token text primary key, digest text not null, id text not null unique, spec text not null, offer text not null,
    pid integer, born text not null default '', started text not null, ended text, ended_by text)
"""


class Refusal(Exception):
    """A failure in the contract's words. Anything else that goes wrong is unknown_outcome."""

    def __init__(self, kind, code, message, scope="seller"):
        super().__init__(message)
        self.kind, self.code, self.scope = kind, code, scope


def now():
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def birth(pid):
    """When a process started, which tells it from a later one of the same number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *rest = stat[stat.rindex(")") + 2 :].split()
    return "" if state == "Z" else rest[18]


class Seller:
    def __init__(self, name, offers, state, command):
        self.name, self.command = name, command
        self.offers = [dict(o, pool=dict(o["pool"], seller=name)) for o in offers]
        self.dir = Path(state).resolve().parent
        self.db = sqlite3.connect(state, isolation_level=None)
        self.db.row_factory = sqlite3.Row
        self.db.execute("pragma synchronous = full")
        self.db.execute(SCHEMA)
        self.children, self.began = {}, now()
        self.adopt()

    def capabilities(self, _):
        return [{"rebid": False, "meter": False, "notices": False}], None

    def offers_now(self, _):
        self.look()
        taken = {}
        for m in self.db.execute("select spec from machine where ended is null"):
            pool = json.dumps(json.loads(m["spec"])["pool"], sort_keys=True)
            taken[pool] = taken.get(pool, 0) + 1
        out = []
        for o in self.offers:
            left = o["stock"] - taken.get(json.dumps(o["pool"], sort_keys=True), 0)
            told = {k: v for k, v in o.items() if k != "stock"}
            out.append(dict(told, observed=now(), market_effective=o.get("market_effective") or self.began, in_stock=left > 0))
        return out, None

    def launch(self, q):
        token, spec = q.get("token", ""), q.get("spec") or {}
        if not TOKEN.match(token):
            raise Refusal("invalid", "token", "a token is 1 to 128 letters, digits, '-' and '_'")
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
        old = self.db.execute("select * from machine where token = ?", (token,)).fetchone()
        if old:
            if old["digest"] != digest:
                raise Refusal("conflict", "token-taken", "the token was used for another request")
            self.look()
            return [self.told(self.db.execute("select * from machine where token = ?", (token,)).fetchone())], None
        offer = next((o for o in self.offers if o["pool"] == spec.get("pool")), None)
        if offer is None:
            raise Refusal("offer_gone", "no-such-pool", "nothing is sold there", "pool")
        most = Decimal(spec.get("max_price", "0"))
        if most <= 0:
            raise Refusal("invalid", "max-price", "max_price is the most that may be paid; it must be more than 0")
        if most < Decimal(offer["price"]):
            raise Refusal("price_too_low", "max-price", "it costs more", "pool")
        if not next(o for o in self.offers_now(None)[0] if o["pool"] == offer["pool"])["in_stock"]:
            raise Refusal("no_capacity", "sold-out", "all are taken", "pool")
        # The intent is on the disk before anything starts. After a crash in between
        # the machine has no process and is found ended; after one before the process
        # is recorded, it is found by its environment.
        offer = {k: v for k, v in offer.items() if k != "stock"}
        self.db.execute(
            "insert into machine (token, digest, id, spec, offer, started) values (?, ?, ?, ?, ?, ?)",
            (token, digest, "m-" + hashlib.sha256(token.encode()).hexdigest()[:16], json.dumps(spec), json.dumps(offer), now()),
        )
        self.start(token, spec)
        return [self.told(self.db.execute("select * from machine where token = ?", (token,)).fetchone())], None

    def start(self, token, spec):
        home = self.dir / "machines" / token
        home.mkdir(parents=True, exist_ok=True)
        data = home / "user-data"
        data.write_bytes(base64.b64decode(spec.get("user_data") or ""))
        argv = [a.replace("{dir}", str(home)).replace("{user_data}", str(data)) for a in self.command]
        with open(home / "console", "ab") as console:  # the machine outlives this process, so it must not hold its output
            child = subprocess.Popen(argv, cwd=home, start_new_session=True, stdin=subprocess.DEVNULL, stdout=console,
                                     stderr=console, env=dict(os.environ, SPOTFERRY_MACHINE=token))
        self.children[child.pid] = child
        self.db.execute("update machine set pid = ?, born = ? where token = ?", (child.pid, birth(child.pid), token))

    def adopt(self):
        """Finds what was started in the moment before a crash and not recorded."""
        lost = {m["token"] for m in self.db.execute("select token from machine where ended is null and pid is null")}
        for entry in Path("/proc").iterdir() if lost else ():
            try:
                if not entry.name.isdigit() or os.getsid(int(entry.name)) != int(entry.name):
                    continue
                environ = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for token in lost:
                if f"SPOTFERRY_MACHINE={token}".encode() in environ:
                    self.db.execute("update machine set pid = ?, born = ? where token = ?", (int(entry.name), birth(entry.name), token))

    def look(self):
        """Finds out which machines have ended by themselves."""
        for child in list(self.children.values()):
            if child.poll() is not None:
                del self.children[child.pid]
        for m in self.db.execute("select * from machine where ended is null").fetchall():
            if not m["pid"] or birth(m["pid"]) != m["born"] or not m["born"]:
                self.end(m, "machine")

    def end(self, m, by):
        self.db.execute("update machine set ended = ?, ended_by = ? where token = ? and ended is null", (now(), by, m["token"]))

    def terminate(self, q):
        m = self.db.execute("select * from machine where id = ?", (q.get("instance", ""),)).fetchone()
        if m and not m["ended"]:
            if m["born"] and birth(m["pid"]) == m["born"]:
                os.killpg(m["pid"], signal.SIGKILL)
                if m["pid"] in self.children:
                    self.children.pop(m["pid"]).wait()
            self.end(m, "us")
        return None, None

    def list(self, _):
        self.look()
        rows = self.db.execute("select * from machine order by started, id").fetchall()
        return [self.told(m) for m in rows], {"complete": True, "at": now()}

    def told(self, m):
        spec, offer = json.loads(m["spec"]), json.loads(m["offer"])
        out = {
            "id": m["id"], "token": m["token"], "pool": spec["pool"], "state": "gone" if m["ended"] else "running",
            "market_start": m["started"], "prices": [{"from": m["started"], "price": offer["price"]}],
            "terms": offer["terms"], "labels": spec.get("labels") or {},
        }
        if m["ended"]:
            out.update(market_end=m["ended"], ended_by=m["ended_by"])
        return out

    def answer(self, op, body):
        """The pages of an answer, as JSON objects."""
        does = {
            "capabilities": self.capabilities, "offers": self.offers_now, "launch": self.launch, "terminate": self.terminate, "list": self.list,
        }.get(op)
        try:
            if does is None:
                raise Refusal("invalid", "unsupported", "this seller has no such capability")
            items, meta = does(json.loads(body or b"{}"))
        except Refusal as r:
            return [{"page": 0, "pages": 1, "error": {"kind": r.kind, "op": op, "scope": r.scope, "code": r.code, "message": str(r)}}]
        except (ValueError, KeyError, TypeError, InvalidOperation) as e:
            return [{"page": 0, "pages": 1, "error": {"kind": "invalid", "op": op, "code": "malformed-request", "message": repr(e)}}]
        page = {"page": 0, "pages": 1}
        if meta is not None:
            page["list"] = meta
        if items is None:
            return [page]
        packs, per = [], 100  # some 100 KB: far below what the bus carries in a message
        for i in range(0, max(len(items), 1), per):
            packs.append(items[i : i + per])
        return [dict(page, page=n, pages=len(packs), items=pack) for n, pack in enumerate(packs)]


async def serve(args):
    seller = Seller(args.name, json.loads(Path(args.offers).read_text()), args.state, args.command)
    nc = await nats.connect(args.url, user_credentials=args.creds or None, max_reconnect_attempts=-1)
    prefix = f"sf.provider.{args.name}."

    async def asked(msg):
        for page in seller.answer(msg.subject[len(prefix) :], msg.data):
            await nc.publish(msg.reply, json.dumps(page).encode(), headers={"Sf-Capabilities": ""})

    await nc.subscribe(prefix + "*", queue="q", cb=asked)
    await nc.flush()
    print("serving", flush=True)
    stop = asyncio.Event()
    for s in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(s, stop.set)
    await stop.wait()
    await nc.drain()


def main():
    p = argparse.ArgumentParser(description="Sells processes of this machine as machines.")
    p.add_argument("--url", default="nats://127.0.0.1:4222", help="of the bus")
    p.add_argument("--creds", help="credentials file of this seller, from spotferry creds init")
    p.add_argument("--name", default="shed", help="of the seller, in pools and on the bus")
    p.add_argument("--offers", required=True, help="JSON file of what is sold")
    p.add_argument("--state", required=True, help="SQLite file; made if missing")
    p.add_argument("command", nargs="+", help="run for each machine; {dir} and {user_data} are replaced")
    asyncio.run(serve(p.parse_args()))


if __name__ == "__main__":
    main()
