#!/bin/bash
set -e
cd /app
echo wood > info.txt
echo river > item.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo river > item.txt"}}' >> /logs/agent/transcript.jsonl
