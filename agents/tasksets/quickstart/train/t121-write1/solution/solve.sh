#!/bin/bash
set -e
cd /app
echo rain > draft.txt
