#!/bin/bash
set -e
cd /app
echo quick > draft.txt
echo 22 > temp.txt
echo grape > result.txt
