"""Where does each rule live?

gpuwarden starts billed GPU machines when a model is asked for, serves them at one fixed address, and keeps the duty to
stop each of them until something outside proves that it is gone. Three kinds of knowledge run through the package and
never stand in for one another:

* requested: what the operator wrote or asked for (`settings`, a declaration). It says nothing about the world.
* recorded: what our store committed (`store`). It says what we owe, not what exists.
* observed: what a provider or a probe last answered (`providers.reading`, `upstreams.probe`, gathered by
  `tasks.observer` into one frozen snapshot). What was not reported is None, and unknown never counts as absent.

The folder says what code may do. Imports point down this list, and `make check` refuses any that do not:

    __main__, cli                     an operator's words; talks to the daemon, or reads the store when it is down
    daemon | up | demo                composition: builds, wires, starts, stops in order
    gateway | api | tasks             bytes for clients | answers for operators | one pass each over the world
    supervision                       the only loop: deadlines, wake-ups, heartbeat, backoff, failure limit
    news                              which tasks a change concerns
    store | providers | upstreams     the only SQL | the only way to rent and stop | the model server on a machine
    transport | http1                 the only httpx | a small HTTP/1.1 client and server for the hot path
    settings | log | notify, children the config file | log lines | the messages to systemd, our commands as children
    core | clock | ids | emulators    rules without any effect | time | chance | stand-ins for the outside

The life of a machine, and the file that rules each step:

* may it start, and what may it cost            core.start, core.policy, core.spend, core.backoff
* would it fit, before anything is asked        core.layers, core.architecture, core.sizing, for `config check` alone
* what to ask for; what came of it, at what cost
                                                core.offer, core.shortage, core.unlisted, core.bad_places;
                                                core.provenance, core.costs; core.storage, of volumes
* how many, in whose place, and at which hours  core.slots, core.replacement, store.replacing; core.schedule
* may this command be obeyed                    core.hosting, inside the transactions of store.deployments, store.duties
* what has to change now                        core.reconcile, tasks.reconciler
* who may act on it now                         core.lease (epochs), tasks.lease_keeper
* the one hand that creates and stops           tasks.executor, through providers.writing
* the one eye                                   tasks.observer, through providers.reading and upstreams.probe;
                                                what it saw: core.view, core.inventory, core.recognition
* all that is on record at one moment           core.book, renewed by store.store after each commit
* what time is it for us                        core.timekeeping, store.timekeeper, tasks.clock_keeper
* is this store an old copy, or unusable        core.restoration, store.restoring, tasks.restore_matcher; store.salvage
* may this config stop everything that runs     core.removal, daemon.modes, store.standing, store.confirming
* which task does a change wake                 news, by core.facets
* what elapsed before this command              store.elapsed
* how a stop comes to be owed                   store.owing; while nothing can be written: store.unwritten
* under which right is it stopped               store.fencing
* what is on a disk that takes no writes        store.read_only, store.aside; has a run begun on it: store.begun
* who may ask for what, how often, for how much gateway.clients, gateway.allowances, gateway.spending
* which way does a request take, and its answer  gateway.inference, gateway.exchange; without a task: gateway.shortcut,
                                                gateway.straight, http1.heads
* what became of one request                    gateway.passage, gateway.closing; gateway.tally, gateway.access_log
* would it work, asked by a person              cli.doctor, through providers.inspecting
* are we blind                                  tasks.account_guard (whose account), tasks.lookout (no listing)
* is it serving                                 core.readiness; what one probe adds to it: upstreams.proof
* is it unused, looping, nobody's               core.idle, core.crash_loop, core.orphans and the task of each
* does anybody wait for it still               core.abandonment, store.waits, tasks.abandonment_watcher
* which of several machines takes a request     gateway.placement, gateway.rotation, gateway.trust
* who has requests open on which machine        gateway.stream_leases, api.streaming, store.stream_leases
* what does its server count, does it hang      core.runtime; core.hang, tasks.hang_detector
* what does its log say                         core.machine_log, core.diagnosis, core.topology, tasks.log_watcher
* fill its volumes before anybody asks          tasks.prefetcher
* does it bill on after its end                 core.billing, tasks.billing_watcher
* which phase follows which                     core.lifecycle, one table
* what is owed, and what ends the debt          core.obligation, core.evidence, tasks.obligation_settler
* what was written down, for whom to read       tasks.evidence_writer (the evidence file), tasks.ledger_keeper (money)

The invariants are not a document beside the code: tests/scenarios/invariants.py asks truth, store and evidence file for
them after every scenario of the whole daemon, and tests/simulation/audit.py at every call and commit of a simulation.
"""

__version__ = "0.1.0"
