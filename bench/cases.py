# SPDX-License-Identifier: BSD-3-Clause
"""What bench/run measures: one row of CASES is one comparison, with what it is meant to show."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Command:
    """A measuring program; library says which libraries it gets: "ours", "peer" or None."""
    program: str
    arguments: str
    library: str = None
    environment: tuple = ()


@dataclasses.dataclass(frozen=True)
class Goal:
    """At least so many times as fast as the peer; at most so many times the limit (plus so many
    nanoseconds, or steps, of it alone)."""
    peer: float = None
    limit: float = None
    extra: float = None
    most: dict = None  # call: instructions


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    ours: Command
    peer: Command = None
    limit: Command = None
    limit_name: str = ""
    goal: Goal = Goal()


SMALL = "8,64"
BULK = "4096,65536,1048576,4194304"
MAPPED = "8,64,4096,65536"
# the two ways to a peer on this host
DIRECT = (("FABRIC_COMPAT_SHM", "1"),)
STREAM = (("FABRIC_COMPAT_SHM", "0"),)


def fi(arguments, environment=DIRECT):
    return Command("fi_bench", arguments, "ours", environment)


def upstream(provider, arguments, endpoint):
    return Command("fi_bench", f"--provider {provider} --ep {endpoint} {arguments}", "peer")


def raw(arguments):
    return Command("raw_bench", arguments)


def against_shm(name, title, arguments, goal, limit=None, limit_name=""):
    """Upstream's shared memory provider has connectionless endpoints only."""
    for endpoint in ("msg", "rdm"):
        yield Case(f"shm.{name}.{endpoint}", f"same host, {title}, FI_EP_{endpoint.upper()}",
                   fi(f"--ep {endpoint} {arguments}"), upstream("shm", arguments, "rdm"),
                   limit, limit_name, goal)


def against_tcp(name, title, arguments, goal, limit=None, limit_name=""):
    for endpoint in ("msg", "rdm"):
        yield Case(f"stream.{name}.{endpoint}", f"stream, {title}, FI_EP_{endpoint.upper()}",
                   fi(f"--ep {endpoint} {arguments}", STREAM),
                   upstream("tcp", arguments, endpoint), limit, limit_name, goal)


def same_host():
    yield from against_shm("rate", "8 and 64 B write, 64 in flight",
                           f"--size {SMALL} --window 64", Goal(peer=1.5))
    yield from against_shm("delivered", "write delivered, one at a time",
                           f"--size {SMALL},4096 --deliver", Goal(peer=1.5))
    yield from against_shm("pingpong", "write with data, half a round trip",
                           f"--test pingpong --op writedata --size {SMALL},4096", Goal(peer=1.5),
                           raw(f"--test shm --size {SMALL},4096"), "shared memory ping-pong")
    yield from against_shm("pingpong.write", "write seen by the target, half a round trip",
                           f"--test pingpong --op write --size {SMALL},4096,65536", Goal(peer=1.5),
                           raw(f"--test shm --size {SMALL},4096,65536"), "shared memory ping-pong")
    yield from against_shm("write", "write to private memory, 16 in flight",
                           f"--size {BULK} --window 16", Goal(peer=1.1),
                           raw(f"--test cma --size {BULK}"), "process_vm_writev")
    yield from against_shm("read", "read from private memory, 16 in flight",
                           f"--op read --size {BULK} --window 16", Goal(peer=1.1))
    yield from against_shm("writedata", "write with data, 16 in flight",
                           f"--op writedata --size 8,{BULK} --window 16", Goal(peer=1.1))
    yield from against_shm("mapped", "write to a memfd, 16 in flight",
                           f"--size {MAPPED} --window 16 --memory memfd", Goal(peer=3, limit=1.5),
                           raw(f"--test memcpy --size {MAPPED}"), "memcpy")
    yield from against_shm("asleep", "write, the target's program sleeps",
                           "--size 8,4096,65536,1048576 --target sleep", Goal(limit=1.3),
                           raw("--test cma --size 8,4096,65536,1048576"), "process_vm_writev")


def stream():
    yield from against_tcp("rate", "8 B write, 64 in flight", "--size 8 --window 64", Goal(peer=5))
    yield from against_tcp("delivered", "write delivered, one at a time",
                           "--size 8,4096 --deliver", Goal(peer=1))
    yield from against_tcp("pingpong", "write with data, half a round trip",
                           "--test pingpong --op writedata --size 8,4096", Goal(peer=1),
                           raw("--test tcp --size 8,4096"), "TCP ping-pong")
    yield from against_tcp("writedata", "write with data, 16 in flight",
                           "--op writedata --size 8,4096,65536 --window 16", Goal(peer=1))
    yield from against_tcp("write", "write, 8 in flight", "--size 65536,1048576,4194304 --window 8",
                           Goal(peer=1.2), raw("--test stream --size 65536,1048576,4194304"),
                           "bytes through TCP")
    yield from against_tcp("read", "read, 8 in flight",
                           "--op read --size 65536,1048576,4194304 --window 8", Goal(peer=1.2))


def librpma(arguments):
    return Command("rpma_bench", arguments, "ours", DIRECT)


def rpma():
    for op, memory, goal in (("write", "file", Goal(extra=300)), ("read", "file", Goal()),
                             ("flush", "file", Goal()), ("persist", "file", Goal()),
                             ("write", "private", Goal())):
        yield Case(f"rpma.{op}.{memory}", f"rpma_{op} on {memory} memory, one at a time",
                   librpma(f"--op {op} --memory {memory} --size 8,4096,65536,1048576"),
                   limit=raw("--test memcpy --size 8,4096,65536,1048576"), limit_name="memcpy",
                   goal=goal)
    yield Case("rpma.bandwidth", "rpma_write on file memory, 16 in flight",
               librpma("--memory file --window 16 --size 65536,1048576"),
               limit=raw("--test memcpy --size 65536,1048576"), limit_name="memcpy")


def steps():
    budget = Goal(most={"write": 150, "completion": 60, "idle": 40})
    for memory in ("private", "memfd"):
        arguments = f"--test steps --memory {memory}"
        yield Case(f"steps.shm.{memory}", f"user instructions, 8 B, same host, {memory}",
                   fi(arguments), upstream("shm", arguments, "rdm"), goal=budget)
    yield Case("steps.stream", "user instructions, 8 B, stream", fi("--test steps", STREAM),
               upstream("tcp", "--test steps", "msg"))
    yield Case("steps.rpma", "user instructions, 8 B, librpma",
               librpma("--test steps --memory file"))


def scaling():
    """The limit is the same thing with one."""
    for what, counts in (("lanes", (4, 16, 64, 256)), ("regions", (100, 10000, 100000)),
                         ("threads", (2, 4))):
        fixed = "--size 64 --window 16"
        for count in counts:
            yield Case(f"scaling.{what}.{count}", f"{count} {what}, 64 B write, 16 in flight",
                       fi(f"{fixed} --{what} {count}"), limit=fi(f"{fixed} --{what} 1"),
                       limit_name="with one")


CASES = [*same_host(), *stream(), *rpma(), *steps(), *scaling()]
