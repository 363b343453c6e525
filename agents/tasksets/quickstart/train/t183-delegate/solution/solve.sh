#!/bin/bash
set -e
cd /app
echo plate > file.txt
echo pink > record.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo pink > record.txt"}}' >> /logs/agent/transcript.jsonl
