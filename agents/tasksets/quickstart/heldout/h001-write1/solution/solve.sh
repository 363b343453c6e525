#!/bin/bash
set -e
cd /app
echo steel > draft.txt
