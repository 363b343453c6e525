#!/bin/bash
set -e
cd /app
echo rain >> draft.txt
echo 71 > out.txt
