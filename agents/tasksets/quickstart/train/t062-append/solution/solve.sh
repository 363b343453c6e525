#!/bin/bash
set -e
cd /app
echo milk >> notes.txt
echo door > report.txt
