#!/bin/bash
set -e
cd /app
echo library > score.txt
echo bright > test.txt
echo knight > draft.txt
