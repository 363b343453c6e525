"""The command lines of engines. The GPU line is generated only: no GPU was at hand to run it."""

from dataclasses import replace

from trainers.cell.engine.arguments import EngineSpec, GpuPlan, cpu_arguments, gpu_arguments

SPEC = EngineSpec("/p", 20001, "key", seed=5, context_tokens=1024, max_calls=128, kv_tokens=65536)


def value_of(line: list[str], name: str) -> str:
    return line[line.index(name) + 1]


def test_every_engine_is_on_loopback_behind_one_key_and_sleeps_when_idle() -> None:
    for line in (cpu_arguments(SPEC), gpu_arguments(SPEC, GpuPlan())):
        assert value_of(line, "--host") == "127.0.0.1"
        assert value_of(line, "--api-key") == value_of(line, "--admin-api-key") == "key"
        assert {"--sleep-on-idle", "--incremental-streaming-output", "--skip-server-warmup"} <= set(line)
        assert value_of(line, "--random-seed") == "5"
        assert value_of(line, "--context-length") == "1024"


def test_a_cpu_engine_uses_plain_torch() -> None:
    line = cpu_arguments(SPEC)
    assert value_of(line, "--device") == "cpu"
    assert value_of(line, "--attention-backend") == "torch_native"
    assert value_of(line, "--sampling-backend") == "pytorch"
    assert value_of(line, "--max-total-tokens") == "65536"
    assert "--disable-overlap-schedule" in line
    assert "--enable-memory-saver" not in line


def test_a_gpu_engine_can_give_its_memory_back_and_share_its_kv() -> None:
    plan = GpuPlan(tensor_parallel=4, expert_parallel=2, hicache_store={"master_server_address": "10.0.0.1:50051"})
    line = gpu_arguments(replace(SPEC, dtype="bfloat16"), plan)
    assert {"--enable-memory-saver", "--enable-weights-cpu-backup", "--enable-hierarchical-cache"} <= set(line)
    assert value_of(line, "--tp-size") == "4"
    assert value_of(line, "--ep-size") == "2"
    assert value_of(line, "--page-size") == "64"
    assert value_of(line, "--hicache-storage-backend") == "mooncake"
    assert value_of(line, "--hicache-storage-backend-extra-config") == '{"master_server_address": "10.0.0.1:50051"}'
    assert "--enable-hierarchical-cache" not in gpu_arguments(SPEC, GpuPlan())
