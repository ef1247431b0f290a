"""A scanner's findings are those that are known and explained, and no more."""

import json
import subprocess

from conftest import TOOLS, VALUES, template

# Each with the objects that it is accepted for, and why.
ACCEPTED = {
    # IfNotPresent, as a tag here always means the same image, and a digest can be named.
    "CKV_K8S_15": ["Deployment", "Job", "Pod"],
    # The digest of an image is the user's to name: image.digest.
    "CKV_K8S_43": ["Deployment", "Job", "Pod"],
    # The id of S3's access key, which is not secret; all that is comes as files.
    "CKV_K8S_35": ["Deployment", "Pod"],
    # The pod of `helm test` ends by itself, and has to reach all that APIs and workers reach.
    "CKV_K8S_8": ["Pod"],
    "CKV_K8S_9": ["Pod"],
    "CKV2_K8S_6": ["Pod"],
}


def findings(tmp_path, values):
    rendered = tmp_path / f"{values}.yaml"
    rendered.write_text(template("helm-4", (str(VALUES[values]),)))
    command = [TOOLS / "checkov/bin/python", TOOLS / "checkov/bin/checkov", "-f", rendered, "--framework", "kubernetes",
               "--compact", "--quiet", "--skip-download", "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["summary"]["parsing_errors"] == 0 and report["summary"]["passed"] > 100, report["summary"]
    return {(check["check_id"], check["resource"].split(".")[0]) for check in report["results"]["failed_checks"]}


def test_no_finding_is_new_and_no_acceptance_is_idle(tmp_path):
    found = findings(tmp_path, "full") | findings(tmp_path, "cpu")
    accepted = {(check, kind) for check, kinds in ACCEPTED.items() for kind in kinds}
    assert found - accepted == set(), "new"
    assert accepted - found == set(), "no longer found: take it off the list"
