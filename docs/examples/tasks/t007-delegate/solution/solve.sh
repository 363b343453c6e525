#!/bin/bash
set -e
cd /app
echo 27 > draft.txt
echo market > copy.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo market > copy.txt"}}' >> /logs/agent/transcript.jsonl
