#!/bin/bash
set -e
cd /app
echo lion > data.txt
echo brush > info.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo brush > info.txt"}}' >> /logs/agent/transcript.jsonl
