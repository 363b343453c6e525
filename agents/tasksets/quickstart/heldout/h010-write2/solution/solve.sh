#!/bin/bash
set -e
cd /app
echo green > report.txt
echo phone > memo.txt
