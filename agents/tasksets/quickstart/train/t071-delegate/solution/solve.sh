#!/bin/bash
set -e
cd /app
echo bright > item.txt
echo water > score.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo water > score.txt"}}' >> /logs/agent/transcript.jsonl
