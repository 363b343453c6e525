#!/bin/bash
set -e
cd /app
echo leather > draft.txt
echo teacher > test.txt
