#!/bin/bash
set -e
cd /app
cp copy.txt plan.txt
echo compass > index.txt
