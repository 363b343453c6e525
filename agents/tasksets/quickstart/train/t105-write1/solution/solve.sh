#!/bin/bash
set -e
cd /app
echo 31 > draft.txt
