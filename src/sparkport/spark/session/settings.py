"""What a Spark session is started with."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparkport.spark.session.capabilities import CLUSTER, CONNECT, EMBEDDED, Capabilities

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
_MASTERS = ("spark://", "k8s://")

_GIB = 1 << 30
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")

# Lists that ours and the user's add up in; everywhere else the user's entry replaces ours.
_JOINED = {
    "spark.driver.extraClassPath": os.pathsep,
    "spark.driver.extraJavaOptions": " ",
    "spark.jars": ",",
    "spark.sql.extensions": ",",
}

IVY_SETTINGS = "SPARKPORT_IVY_SETTINGS"
"""The variable that names a description of another Maven repository."""

NO_EXTERNAL_XML = ("javax.xml.accessExternalDTD", "javax.xml.accessExternalSchema")
"""Properties of Java which, when they are empty, keep XML from fetching what it refers to."""

_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"

CHECKPOINT_INTERVAL = "200"
"""After how many commits Delta writes a checkpoint of a new table: `delta.checkpointInterval`."""

# What may be set on a session that runs already, and so also over Spark Connect.
_SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # A column may be called ${...}, which Spark would replace, quoted or not.
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    _LARGE_TYPES: "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Small splits: the first batch of a scan is there early, and a cancelled scan has little to throw away.
    "spark.sql.files.maxPartitionBytes": "8m",
    # Else it takes four megabytes of time to open a file, and a log of small commits dozens of tasks.
    "spark.sql.files.openCostInBytes": "64k",
    # Replaying a log in 50 tasks, as is Delta's default, is most of the latency of a small table.
    "spark.databricks.delta.snapshotPartitions": "2",
    # The statement whose turn it is waits for it, so the server writes checkpoints much earlier by itself.
    "spark.databricks.delta.properties.defaults.checkpointInterval": CHECKPOINT_INTERVAL,
    # It is told in checksums alone. Where one lacks it, such as after a commit of the server's own, Delta
    # runs jobs over the whole log to compute it, before the next commit is done.
    "spark.databricks.delta.checksumDeletedRecordCountsHistogramMetrics.enabled": "false",
    # Else VACUUM takes the hours it is told for nothing, without a word.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
}

# Ten times as many calls as is Java's default before a method is compiled with all optimizations: while
# Spark starts, that would take a third of all CPU time. What tasks do millions of times gets there soon.
_LATE_OPTIMIZATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

_BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_START_CONF = {
    "spark.app.name": "sparkport",
    # On a local disk Hadoop starts a process for each look at a file's links and each change of its mode.
    # Without files of checksums beside those of the log there are half as many.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Spark runs and where its tables lie.

    `remote` is the address of a Spark Connect server; with it `master` has no
    meaning. Entries of `conf` win over those that sparkport would set.
    """

    warehouse: str
    master: str = "local[*]"
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    driver_memory: str | None = None
    cache: Path = field(default_factory=lambda: cache_folder(os.environ))
    warm_up: bool = True

    def __post_init__(self) -> None:
        if not self.warehouse:
            raise ValueError("the warehouse needs a path")
        if self.conf.get(_LARGE_TYPES, "false").lower() != "false":
            raise ValueError(f"{_LARGE_TYPES} has to stay false: texts go to clients with small offsets")
        if self.remote is not None and not self.remote.startswith("sc://"):
            raise ValueError(f"a Spark Connect address begins with sc://, not {self.remote!r}")
        if not (_LOCAL.fullmatch(self.master) or self.master == "yarn" or self.master.startswith(_MASTERS)):
            raise ValueError(
                f"{self.master!r} is not a Spark master: use local[N], spark://..., k8s://... or yarn"
            )

    @property
    def is_connect(self) -> bool:
        """Whether the session lives in a Spark Connect server."""
        return self.remote is not None

    @property
    def is_embedded(self) -> bool:
        """Whether Spark runs in a process of the server's own, on this machine alone."""
        return not self.is_connect and _LOCAL.fullmatch(self.master) is not None

    @property
    def capabilities(self) -> Capabilities:
        """What the session can do for the server."""
        if self.is_connect:
            return CONNECT
        return EMBEDDED if self.is_embedded else CLUSTER

    @property
    def cores(self) -> int:
        """How many tasks an embedded Spark runs at once."""
        match = _LOCAL.fullmatch(self.master)
        count = match.group(1) if match else None
        if count == "*":
            return os.cpu_count() or 1
        return int(count or 1)

    @property
    def python(self) -> str | None:
        """The Python of the workers; None leaves it to the cluster."""
        return self.conf.get("spark.pyspark.python") or (sys.executable if self.is_embedded else None)

    @property
    def jars_folder(self) -> Path:
        """Where fetched jars are kept."""
        return self.cache / "jars"

    @property
    def ivy_settings(self) -> str | None:
        """The user's description of another Maven repository."""
        return self.conf.get("spark.jars.ivySettings") or os.environ.get(IVY_SETTINGS) or None

    @property
    def brings_delta(self) -> bool:
        """Whether the session has Delta without our jars."""
        named = (self.conf.get(key, "") for key in ("spark.jars", "spark.jars.packages"))
        return self.is_connect or any("delta-spark" in value or "delta-core" in value for value in named)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for what can be fetched or computed again."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sparkport"


def default_driver_memory(machine_bytes: int) -> str:
    """Return a quarter of the machine's memory, within 1 and 8 GiB."""
    return f"{min(max(machine_bytes // 4, _GIB), 8 * _GIB) >> 20}m"


def session_conf(settings: SparkSettings) -> dict[str, str]:
    """Return the entries that are set on a session that runs already."""
    ours = dict(_SESSION_CONF)
    if settings.is_embedded:
        ours["spark.sql.shuffle.partitions"] = str(settings.cores)
        # VACUUM lists a table's folder in so many tasks, whatever is in there: ten thousand unless told.
        ours["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = str(4 * settings.cores)
        # Delta writes a checksum after each commit. To put it into its place, Spark's default starts a
        # process ten times on a local disk, which takes longer than the commit itself.
        ours["spark.sql.streaming.checkpointFileManagerClass"] = _BY_FILE_SYSTEM
    return _merge(ours, settings.conf)


def start_conf(
    settings: SparkSettings, jars: Iterable[Path], scratch: Path, java_options: Iterable[str] = ()
) -> dict[str, str]:
    """Return all entries for a new driver.

    `scratch` is a folder for everything that Spark drops while it runs.
    """
    ours = _START_CONF | {
        "spark.master": settings.master,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.warehouse.dir": _absolute(settings.warehouse),
        "spark.driver.memory": settings.driver_memory or default_driver_memory(_machine_bytes()),
        "spark.driver.extraJavaOptions": " ".join(
            _quote(option) for option in (*_java_options(scratch), *java_options)
        ),
    }
    names = [str(jar) for jar in jars]
    if settings.is_embedded:
        # On the class path itself: an archive of loaded classes covers what the system loader loads only.
        ours["spark.driver.extraClassPath"] = os.pathsep.join(names)
        ours["spark.driver.bindAddress"] = ours["spark.driver.host"] = "127.0.0.1"
        ours["spark.local.dir"] = str(scratch / "local")
        ours["spark.python.daemon.module"] = "sparkport.spark.worker.daemon"
        ours["spark.python.unix.domain.socket.enabled"] = "true"
        # Other users of the machine can reach the ports on loopback too. In local mode Spark makes the
        # secret up by itself and keeps it in its memory.
        ours["spark.authenticate"] = "true"
    else:
        ours["spark.jars"] = ",".join(names)
        # A cancelled task that does not end costs its executor. In local mode the reaper only looks on.
        ours["spark.task.reaper.enabled"] = "true"
        ours["spark.task.reaper.killTimeout"] = "60s"
    conf = session_conf(settings) | _merge(ours, settings.conf)
    if not settings.is_embedded:
        # After the user's: Java takes the last of several.
        options = (conf.get(_EXECUTOR_OPTIONS, ""), *(f"-D{name}=" for name in NO_EXTERNAL_XML))
        conf[_EXECUTOR_OPTIONS] = " ".join(filter(None, options))
    return conf


def _java_options(scratch: Path) -> list[str]:
    return [
        "-XX:+UseParallelGC",
        *_LATE_OPTIMIZATION,
        f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}",
        # With a Hive catalog, Derby's log and database would appear in the current folder.
        f"-Dderby.system.home={scratch}",
    ]


def _quote(option: str) -> str:
    return f'"{option}"' if " " in option else option


def _merge(ours: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    merged = {**ours, **user}
    for key, separator in _JOINED.items():
        parts = [entries[key] for entries in (ours, user) if entries.get(key)]
        if parts:
            merged[key] = separator.join(parts)
        else:
            merged.pop(key, None)
    return merged


def _absolute(warehouse: str) -> str:
    return warehouse if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", warehouse) else str(Path(warehouse).resolve())


def _machine_bytes() -> int:
    if not hasattr(os, "sysconf"):
        return 4 * _GIB
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # A container sees the memory of its host, and is ended when it uses more than its share.
    limit = _CONTAINER_LIMIT.read_text().strip() if _CONTAINER_LIMIT.is_file() else "max"
    return min(physical, int(limit)) if limit.isdigit() else physical
