#!/bin/bash
set -e
cd /app
echo dark > info.txt
echo train > score.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo train > score.txt"}}' >> /logs/agent/transcript.jsonl
