#!/bin/bash
set -e
cd /app
echo pillow > total.txt
echo wine > final.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo wine > final.txt"}}' >> /logs/agent/transcript.jsonl
