#!/bin/bash
set -e
cd /app
echo silver > record.txt
echo tea > info.txt
echo eagle > notes.txt
