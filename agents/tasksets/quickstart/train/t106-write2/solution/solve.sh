#!/bin/bash
set -e
cd /app
echo moon > final.txt
echo moon > draft.txt
