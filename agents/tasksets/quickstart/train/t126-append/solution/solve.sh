#!/bin/bash
set -e
cd /app
echo cross >> draft.txt
echo 19 > index.txt
