"""The container files name commands, options, variables, files and addresses that exist."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from osamd.cli.app import app

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()


def require_command(words):
    """Require that `osamd` has this command, and the command these options."""
    command = get_command(app).commands[words[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
    return command


def listed(instruction):
    """The words of an instruction of the Dockerfile that is written as a list."""
    return json.loads(re.search(rf"^{instruction} (\[.*\])$", DOCKERFILE, flags=re.MULTILINE)[1])


def test_the_image_starts_the_service():
    assert listed("ENTRYPOINT") == ["osamd"]
    assert require_command(listed("CMD")).name == "serve"
    assert f"EXPOSE {listed('CMD')[-1]}\n" in DOCKERFILE


def test_what_is_copied_exists_and_is_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists()
            assert f"!{name}" in ignored


def test_the_image_asks_an_address_that_the_service_has():
    pytest.importorskip("fastapi", reason="the service needs FastAPI: pip install 'osamd[service]'")
    from osamd.service.web import router

    path = re.search(r"http://127.0.0.1:8000(/\w+)", DOCKERFILE)[1]
    assert path in {route.path for route in router.routes}


def test_compose_starts_the_same_service_with_variables_that_it_reads():
    yaml = pytest.importorskip("yaml", reason="compose files are YAML, which mkdocs brings: pip install 'osamd[docs]'")
    services = yaml.safe_load(COMPOSE)["services"]
    command = require_command(services["service"]["command"])
    assert services["service"]["command"] == listed("CMD")
    assert set(services["service"]["environment"]) <= {parameter.envvar for parameter in command.params}
    assert set(services["service"]["depends_on"]) <= set(services)
    volumes = [volume.split(":")[0] for service in services.values() for volume in service["volumes"]]
    assert set(volumes) == set(yaml.safe_load(COMPOSE)["volumes"])


@pytest.mark.parametrize("place", ["compose.yaml", "docs/guides/operations.md"])
def test_the_commands_that_people_are_told_to_type_exist(place):
    told = re.findall(r"docker compose run --rm .*?\bservice (.*)$", (ROOT / place).read_text(), flags=re.MULTILINE)
    assert {require_command(shlex.split(words)).name for words in told} == {"init", "token"}
